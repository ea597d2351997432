"""Words of other packages: the argument or the setting of this package that has their meaning."""

import inspect
import re
import tomllib
from collections.abc import Callable
from functools import cache, wraps
from importlib import resources
from typing import Any, TypeVar

from stanadapt.errors.checks import did_you_mean
from stanadapt.errors.exceptions import StanadaptError

F = TypeVar("F", bound=Callable[..., Any])

PACKAGES = {"cmdstanpy": "CmdStanPy", "nutpie": "nutpie", "pymc": "PyMC", "r": "rstan, brms"}


@cache
def table() -> list[dict[str, Any]]:
    """Return the rows of `other_words.toml`."""
    text = resources.files(__package__).joinpath("other_words.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["argument"]


@cache
def _rows_by_word() -> dict[str, dict[str, Any]]:
    """Return rows by each of their words, with `_` for `-`; the first has precedence."""
    found: dict[str, dict[str, Any]] = {}
    for row in table():
        for word in _words(row):
            found.setdefault(word, row)
    return found


def _words(row: dict[str, Any]) -> list[str]:
    texts = [re.sub(r"=.*", "", row.get(package, "")) for package in (*PACKAGES, "other")]
    return re.findall(r"\w+", " ".join(texts))


def in_our_words(word: str, shell: bool = False) -> str:
    """Return a question with the argument that a word of another package stands for; "" if none.

    In a shell, it is an option, or a setting after --set.
    """
    word = word.lstrip("-").replace("-", "_").lower()
    row = _rows_by_word().get(word)
    if row is None or (row["here"] == word and not (shell and row.get("setting"))):
        return ""
    name = row["here"]
    if shell:
        if "of" in row and "option" not in row:
            return ""
        name = f"--set {name}=VALUE" if row.get("setting") else option(row)
    if "of" in row and not shell:
        name = f"{name} of {row['of']}"
    hint = f" {row['hint']}" if "hint" in row else ""
    return f" Did you mean {name}?{hint}"


def option(row: dict[str, Any]) -> str:
    """Return the option of a row in a shell."""
    return str(row.get("option") or f"--{row['here'].replace('_', '-')}")


def answers_other_words(function: F) -> F:
    """Make a keyword that a function lacks a StanadaptError, which names the one that is meant."""
    known = list(inspect.signature(function).parameters)
    name = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def checked(*arguments: Any, **keywords: Any) -> Any:
        for word in keywords:
            if word not in known:
                text = f"{name} has no argument named {word!r}.{_meant(word, known)}"
                raise StanadaptError("unknown_argument", text)
        return function(*arguments, **keywords)

    return checked  # type: ignore[return-value]


def _meant(word: str, known: list[str]) -> str:
    row = _rows_by_word().get(word.lower())
    if row is None:
        return did_you_mean(word, known)
    # another package's word for the same may be that of this function
    here = next((each for each in (row["here"], *_words(row)) if each in known), "")
    return f" Did you mean {here or row['here'] + ' of ' + row.get('of', 'sample')}?"
