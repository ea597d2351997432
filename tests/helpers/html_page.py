"""An HTML page, parsed: whether its elements are closed, its text by section, its references."""

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}
REFERENCES = ("src", "href", "xlink:href", "action", "poster", "data")


class Page(HTMLParser):
    """Read a page.

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
        self.feed(source)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs, closed=False):
        attributes = dict(attrs)
        self.tags.append(tag)
        self.links += [attributes[name] for name in REFERENCES if name in attributes]
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag not in VOID and not closed:
            self.open.append((tag, attributes.get("id")))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs, closed=True)

    def handle_endtag(self, tag):
        assert self.open, f"{tag} is closed, but was never opened"
        assert self.open[-1][0] == tag, f"{tag} is closed inside {self.open[-1]}"
        self.open.pop()

    def handle_data(self, data):
        if any(tag == "style" for tag, _ in self.open):
            return
        for name in {"", *(name for _, name in self.open if name)}:
            self.text[name] = self.text.get(name, "") + data

    def words(self, section=""):
        """Text of a section, blanks joined."""
        return " ".join(self.text[section].split())
