"""The surface of Stan's language: hidden parts, blocks, tokens and brackets.

All code of this package that reads Stan programs does it through this file. Programs that are not
valid are read as far as possible, because Stan's compiler gives better messages for errors.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

BLOCKS = (
    "functions", "data", "transformed data", "parameters", "transformed parameters", "model",
    "generated quantities",
)  # fmt: skip

# The parts that stanc's lexer removes before parsing, in a single expression that recognizes quotes
# inside comments and comments inside strings. A "#" that does not start an include was a comment
# until Stan 2.32 and has been an error since. stanc requires the space after #include.
HIDDEN = re.compile(
    r"""(?P<comment> //[^\n]* | /\*.*?(?:\*/|\Z) )
      | \#include\s+ (?: "(?P<quoted>[^"\n]*)" | <(?P<angled>[^>\n]*)> | (?P<bare>\S+) )
      | (?P<hash> \#[^\n]* )
      | (?P<string> "[^"\n]*"? )
    """,
    re.DOTALL | re.VERBOSE,
)
NAME = re.compile(r"[A-Za-z]\w*")
_BLOCK = re.compile(
    r"\b(functions|(?:transformed\s+)?data|(?:transformed\s+)?parameters|model"
    r"|generated\s+quantities)\s*\{"
)
_TOKEN = re.compile(
    r"[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9_]+(?:[eE][+-]?[0-9]+)?|[A-Za-z]\w*"
    r"|%/%|\.\*|\./|\.\^|&&|\|\||[=!<>]=|\S"
)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


# --- text and blocks ------------------------------------------------------------------------------


@lru_cache(maxsize=32)  # a program is read by several checks, block by block
def strip(code: str) -> str:
    """Replace comments, `#` lines and the contents of strings by blanks.

    Newlines stay, so that positions in the two texts agree.
    """

    def blank(match: re.Match) -> str:
        # Quotes stay, so that a string argument remains recognizable as an argument.
        return _blank(match[0], r"[^\n]" if match["string"] is None else r'[^\n"]')

    return HIDDEN.sub(blank, code)


def _blank(text: str, replaced: str = r"[^\n]") -> str:
    return re.sub(replaced, " ", text)


@lru_cache(maxsize=32)
def spans(stripped: str) -> dict[str, tuple[int, int]]:
    """Return start and end of the body of each top-level block."""
    spans, position = {}, 0
    while match := _BLOCK.search(stripped, position):
        depth, position = 1, len(stripped)
        for brace in re.finditer(r"[{}]", stripped[match.end() :]):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                position = match.end() + brace.start()
                break
        spans[" ".join(match[1].split())] = (match.end(), position)
    return spans


def block(code: str, name: str) -> str:
    """Return the stripped body of the block `name`; "" if the program lacks it."""
    if name not in BLOCKS:
        raise ValueError(f"a block is one of {', '.join(BLOCKS)}, got {name!r}")
    stripped = strip(code)
    start, end = spans(stripped).get(name, (0, 0))
    return stripped[start:end]


def without_blocks(code: str, names: Iterable[str]) -> str:
    """Replace the bodies of blocks by blanks; line numbers stay the same."""
    places = spans(strip(code))
    return blanked(code, [places.get(name, (0, 0)) for name in names])


def blanked(code: str, parts: Iterable[tuple[int, int]]) -> str:
    """Replace parts, each from a start to an end, by blanks; line numbers stay the same."""
    for start, end in parts:
        code = code[:start] + _blank(code[start:end]) + code[end:]
    return code


def has_random_data(code: str) -> bool:
    """Whether the density depends on random numbers, which are drawn when the program is bound."""
    return bool(re.search(r"_rng\s*\(", block(code, "transformed data")))


def prints(code: str) -> bool:
    """Whether a program has a statement `print`."""
    return bool(re.search(r"\bprint\s*\(", strip(code)))


# --- tokens and brackets --------------------------------------------------------------------------


class Token(str):
    """A name, number, operator or sign, and its place in the text."""

    start: int
    end: int

    @classmethod
    def of(cls, match: re.Match) -> "Token":
        """Return the token that was found."""
        token = cls(match[0])
        token.start, token.end = match.span()
        return token


def tokens(stripped: str, start: int = 0, end: int | None = None) -> list[Token]:
    """Return the tokens of a stripped text, or of a part of it."""
    found = _TOKEN.finditer(stripped, start, len(stripped) if end is None else end)
    return [Token.of(match) for match in found]


def at(tokens: Sequence[Token], place: int) -> str:
    """Return the token at a place; "" behind the last."""
    return tokens[place] if place < len(tokens) else ""


def closing(tokens: Sequence[Token], start: int, sign: str = "") -> int:
    """Return the place of the bracket that closes the one at `start`, or of an outer `sign`.

    The number of tokens, if it is missing. A constraint ends at its first outer ">": stanc requires
    parentheses around comparisons.
    """
    depth = 0
    for place in range(start, len(tokens)):
        token = tokens[place]
        depth += (token in _OPENING) - (token in _CLOSING)
        if depth == 0 and token == (sign or token):
            return place
    return len(tokens)


def definitions(block: Sequence[Token]) -> list[Sequence[Token]]:
    """Split the block `functions` after the body of each; declarations are before the next one."""
    found, first = [], 0
    while "{" in block[first:]:
        last = closing(block, block.index(Token("{"), first))
        found.append(block[first : last + 1])
        first = last + 1
    return found


def split(tokens: Sequence[Token], *separators: str) -> list[list[Token]]:
    """Split tokens at the separators outside all brackets; there is one part without separators."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in _OPENING) - (token in _CLOSING)
        if depth == 0 and token in separators:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


# --- statements -----------------------------------------------------------------------------------


class Statement(NamedTuple):
    """A statement of a block: where it begins and ends, in how many braces."""

    start: int
    end: int
    depth: int


def statements(code: str, name: str) -> list[Statement]:
    """List the statements of the block `name` that end with a semicolon, in order.

    A loop without braces is one with its body.
    """
    stripped = strip(code)
    found, begin, depth, inside, before = [], None, 0, 0, ""
    for token in tokens(stripped, *spans(stripped).get(name, (0, 0))):
        begin = token.start if begin is None else begin
        # braces within an expression contain the elements of an array
        is_array = inside or before not in ("", ")", ";", "{", "}", "else")
        sign = "([{" if is_array else "(["
        inside += (token in sign) - (inside > 0 and token in ")]}")
        if inside == 0 and token in (";", "{", "}") and not (is_array and token == "}"):
            if token == ";":
                found.append(Statement(begin, token.end, depth))
            depth += (token == "{") - (token == "}")
            begin = None
        before = token
    return found
