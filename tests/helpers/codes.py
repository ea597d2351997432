"""Errors and warnings in tests: their code, and facts that the text must name; no wording."""

import contextlib
import warnings

import pytest

from stanadapt.errors import StanadaptError, all_codes


@contextlib.contextmanager
def raises(code, *facts):
    """Expect an error with this code, and these facts in its text: values, variables, files."""
    with pytest.raises(StanadaptError) as caught:
        yield caught
    assert caught.value.code == code, str(caught.value)
    _require(facts, caught.value.message)


@contextlib.contextmanager
def raises_in(stage, *facts):
    """Expect an error of this stage, with any code, and these facts in its text."""
    with pytest.raises(StanadaptError) as caught:
        yield caught
    assert caught.value.stage == stage, str(caught.value)
    assert caught.value.code in all_codes(), str(caught.value)
    _require(facts, caught.value.message)


@contextlib.contextmanager
def warns(code, *facts):
    """Expect a warning with this code, and these facts in its text; others pass through."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught
    found = [w for w in caught if getattr(w.message, "code", None) == code]
    assert found, f"no warning {code} among {[str(w.message) for w in caught]}"
    assert any(all(str(fact) in str(w.message) for fact in facts) for w in found), facts
    for other in caught:
        if other not in found:
            warnings.warn_explicit(other.message, None, other.filename, other.lineno)


def _require(facts, text):
    for fact in facts:
        assert str(fact) in text, f"{fact!r} is not in {text!r}"
