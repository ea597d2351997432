"""A Numba whose parts are not those that our way of compiling changes: slower, not broken."""

import pytest

from stanadapt.engine.compiled.own_way import OwnWay
from tests.helpers.other_process import printed

# functions that call others, as entries and for C, and an array that is allocated
SCRIPT = """
import warnings
import numba
from numba.core import codegen
{before}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import numpy as np
    from numba import njit
    from stanadapt.engine.compiled import own_way
    from stanadapt.engine.compiled.jit import c_function, inline, jit, rarely_called
    {after}

    @inline
    def square(x):
        return x * x

    @jit
    def squares(vector):
        made = np.zeros(vector.size)
        for i in range(vector.size):
            made[i] = square(vector[i])
        return made

    @rarely_called
    def total(vector):
        return squares(vector).sum()

    @jit
    def wrong(vector):
        return vector.no_such_thing

    @c_function("float64(float64)")
    def of_c(x):
        return square(x) + 1.0

    try:
        wrong(np.ones(2))
    except numba.TypingError:
        print("an error stays one")
    print(total(np.array([1.0, 2.0])), squares(np.array([3.0]))[0], of_c.address != 0)
    print(njit(lambda x: total(x))(np.array([2.0])))
print(*(getattr(each.message, "code", each.message) for each in caught), own_way.OwnWay.works)
"""
MISSING = "del codegen.JITCodeLibrary"
CHANGED = """
def surprise(self, *arguments):
    raise AttributeError("'JITCodeLibrary' object has no such part")
from stanadapt.engine.compiled import callees
callees.{kind}Library._finalize_final_module = surprise
own_way.OwnWay.works = None
"""


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after", "code", "works"), [
    ("", "", "", True), (MISSING, "", "numba_too_new", False),
    ("", "own_way.OwnWay.works = None", "", True),
    ("", CHANGED.format(kind="Callee"), "numba_too_new", False),
    ("", CHANGED.format(kind="Entry"), "numba_too_new", False),
])  # fmt: skip
def test_a_numba_that_surprises_us_is_used_as_it_is(tmp_path, before, after, code, works):
    """One warning, the same results, and what is kept on disk is found by the next process."""
    script = SCRIPT.format(before=before, after=after.replace("\n", "\n    "))
    expected = "an error stays one\n5.0 9.0 True\n4.0\n"
    expected += f"{code} {works}\n".lstrip()
    for _ in range(2):
        assert printed(script, STANADAPT_CACHE=tmp_path) == expected


@pytest.mark.skipif(OwnWay.works is None, reason="raise TRIED, if the trial succeeds")
def test_in_a_known_release_a_surprise_is_an_error(monkeypatch):
    from stanadapt.engine.compiled import callees
    from stanadapt.engine.compiled.jit import jit

    def surprise(self):
        raise AttributeError("no such part")

    monkeypatch.setattr(callees.EntryLibrary, "_finalize_final_module", surprise)
    with pytest.raises(AttributeError, match="no such part"):
        jit(lambda x: x + 11)(1.0)


@pytest.mark.slow
def test_numba_disable_jit_has_no_effect_on_compiled_code():
    code = (
        "import warnings; warnings.simplefilter('ignore'); import stanadapt as sa\n"
        "t = sa.Target('parameters { real x; } model { x ~ normal(3, 2); }', show_progress=False)\n"
        "o = {'chains': 1, 'iter_warmup': 20, 'iter_sampling': 30, 'show_progress': False}\n"
        "fit = sa.sample(t, 'rwm', **o)\n"
        "print(fit['posterior'].sizes['draw'])"
    )
    assert printed(code, NUMBA_DISABLE_JIT=1).strip() == "30"
