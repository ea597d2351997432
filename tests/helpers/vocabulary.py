"""Words of the package's prose: strings and comments of the code, and the pages.

python -m tests.helpers.vocabulary        # uses per 10,000 words, and the files with most of them
"""

import io
import re
import sys
import tokenize
from collections import Counter

from tests.helpers.repository import PACKAGE, ROOT

# tics of an earlier style, and how often per 10,000 words they may be used: about twice what three
# respected packages of the field use (blackjax, arviz-stats, mici), and a little if they use none
BUDGET = {
    "where": (r"\bwhere\b", 24.0),
    "a clause that begins with 'what'": (
        r"\bwhat (?:is|are|was|were|it|they|the|a|to|there)\b",
        3.0,
    ),
    "whose, of which": (r"\b(?:whose|of which)\b", 6.0),
    "a line that begins with 'Of'": (r"^\s*Of\b", 0.5),
    "say": (r"\b(?:say|says|said)\b", 4.0),
    "a sentence, for a message": (r"\bsentences?\b", 1.0),
    "go on": (r"\b(?:go|goes|going|gone|went) on\b", 0.5),
    "told, tells": (r"\b(?:told|tells?)\b", 1.0),
    "of its own": (r"(?<!A file )\bof (?:its|their|his|her) own\b", 1.0),
    "else, for otherwise": (r"(?:,|;|:) else\b", 0.5),
    "anew, afresh": (r"\b(?:anew|afresh)\b", 0.5),
    "so many": (r"\bso (?:many|often|few)\b", 0.5),
    "nobody, whoever": (r"\b(?:nobody|whoever|whatever)\b", 0.7),
    "is none": (r"\bis none\b", 0.5),
    "yardstick": (r"\byardstick\b", 0.2),
}
BRITISH = (
    r"\b\w*(?:(?:standard|normal|parameter|initial|optim|summar|factor)is(?:e|ed|es|ing|ation)"
    r"|behaviour|colour|neighbour|centre[ds]?)\b"
)


def prose():
    """Yield (file, text): strings and comments of Python, messages, text of pages without code."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        kinds = {tokenize.COMMENT, tokenize.STRING}
        found = [token.string for token in tokens if token.type in kinds and " " in token.string]
        yield path, "\n".join(text.strip("rbfu#\"' ") for text in found)
    messages = PACKAGE / "errors" / "messages.toml"
    yield messages, messages.read_text()
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        yield path, re.sub(r"```.*?```", "", path.read_text(), flags=re.S)


def measure():
    """Return uses per 10,000 words by tic, and by tic a Counter of files."""
    words, found = 0, {name: Counter() for name in BUDGET}
    for path, text in prose():
        words += len(re.findall(r"[A-Za-z]+", text))
        for name, (pattern, _) in BUDGET.items():
            count = len(re.findall(pattern, text, re.M))
            if count:
                found[name][str(path.relative_to(ROOT))] += count
    return {name: 1e4 * files.total() / words for name, files in found.items()}, found


def main():
    """Print the table, and where most uses are."""
    rates, found = measure()
    for name, (_, most) in BUDGET.items():
        print(f"{rates[name]:6.1f} of {most:4.1f}  {name}: {found[name].most_common(8)}")


if __name__ == "__main__":
    sys.exit(main())
