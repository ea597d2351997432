"""An HTML page, parsed: its text by section, its references, and its messages by code."""

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}
REFERENCES = ("src", "href", "xlink:href", "action", "poster", "data")


class Page(HTMLParser):
    """Read a page, and require that every element is closed.

    text
        Words of each section that has an id, by this id, and of the whole page as "".
    tags
        Names of all elements.
    links
        Values of attributes that refer to something.
    ids
        All identifiers.
    """

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.links, self.ids = [], [], [], []
        self.text, self.sections = {"": ""}, []
        self._coded, self._heading = [], ""
        self.feed(source)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs, closed=False):
        attributes = dict(attrs)
        self.tags.append(tag)
        self.links += [attributes[name] for name in REFERENCES if name in attributes]
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "h3":
            self._heading = ""
        message = None
        if "data-code" in attributes:
            sections = [name for _, name, _ in self.open if name]
            message = [attributes["data-code"], sections, " ".join(self._heading.split()), ""]
            self._coded.append(message)
        if tag not in VOID and not closed:
            self.open.append((tag, attributes.get("id"), message))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs, closed=True)

    def handle_endtag(self, tag):
        assert self.open, f"{tag} is closed, but was never opened"
        assert self.open[-1][0] == tag, f"{tag} is closed inside {self.open[-1]}"
        self.open.pop()

    def handle_data(self, data):
        if any(tag == "style" for tag, *_ in self.open):
            return
        for name in {"", *(name for _, name, _ in self.open if name)}:
            self.text[name] = self.text.get(name, "") + data
        for tag, _, message in self.open:
            if tag == "h3":
                self._heading += data
            if message is not None:
                message[-1] += data

    def words(self, section=""):
        """Text of a section, blanks joined."""
        return " ".join(self.text[section].split())

    def messages(self, section, heading=""):
        """Codes and texts of the messages in a section, below headings that begin like this."""
        return [
            (code, " ".join(text.split()))
            for code, sections, below, text in self._coded
            if section in sections and below.startswith(heading)
        ]

    def codes(self, section, heading=""):
        """Codes of the messages in a section."""
        return [code for code, _ in self.messages(section, heading)]
