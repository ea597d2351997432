"""What cannot be extended, or not so, is told in words; impropriety is announced."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from test_extended import QUIET
from test_noise import PROGRAM as NOISY

import stanadapt as sa

CODE = """
data { int n; int k; vector[n] y; }
parameters { vector[k] x; }
model { x ~ normal(0, 3); y ~ normal(x[1], 1); }
"""
LAW = sa.ReferenceLaw([0.0, 0.0], 3.0)
LADDER = ([0.0, 0.5, 1.0], [0.0, -1.0, 0.0])


@pytest.fixture(scope="module")
def target():
    return sa.Target(CODE, {"n": 1, "k": 2, "y": [0.3]}, **QUIET)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pseudo_samples": 0}, "pseudo_samples must be a whole number, at least 1, got 0"),
        ({"pseudo_samples": 1.5}, "pseudo_samples must be a whole number"),
        ({"temperature": "hot"}, "must be one of free, fixed, collapsed, got 'hot'"),
        ({"between": (0.9, 0.1)}, r"between must increase, got \(0.9, 0.1\)"),
        ({"between": (0.5, 0.5)}, 'take temperature="fixed"'),
        ({"between": (-0.1, 1)}, r"inverse temperature in \[0, 1\], got -0.1"),
        ({"between": (0.1, 5)}, r"inverse temperature in \[0, 1\], got 5"),
        ({"between": 0.5}, "lowest and the highest temperature, got 0.5"),
        ({"temperature": "fixed", "fixed_at": 1.5}, "fixed_at must be an inverse temperature"),
        ({"temperature": "fixed", "fixed_at": np.nan}, "fixed_at must be an inverse temperature"),
        ({"temperature": "fixed", "ladder": LADDER}, "a fixed temperature needs no ladder"),
        ({"temperature": "collapsed"}, "give ladder="),
        ({"ladder": ([0, 0.7, 0.5, 1], [0, 0, 0, 0])}, "must increase in"),
        ({"ladder": ([0, 0.7], [0, 0])}, "end at 1"),
        ({"ladder": ([-0.1, 1], [0, 0])}, r"increase in \[0, 1\]"),
        ({"ladder": ([0, 1], [0, np.inf])}, "log_normalizers must be finite"),
        ({"ladder": ([0, 1], [0])}, r"got shapes \(2,\) and \(1,\)"),
        ({"ladder": ([1], [0])}, "at least two"),
        ({"ladder": 3}, "two lists of numbers"),
        ({"ladder": ([0.3, 1], [0, 0])}, r"take between=\(0.3, 1\)"),
        ({"reference_law": sa.ReferenceLaw([0.0], 1.0)}, "the target has 2 unconstrained"),
        ({"reference_law": 3.0}, "must be a ReferenceLaw"),
        ({"prior_data": {"n": 0, "k": 2, "y": []}}, "either reference_law or prior_data"),
        ({"prior_data": {"n": 0, "k": 3, "y": []}, "reference_law": None}, r"of program \(x\)"),
    ],
)
def test_bad_options_are_told(target, options, words):
    with pytest.raises(sa.StanadaptError, match=words):
        sa.Extended(target, **{"reference_law": LAW, **options})


def test_prior_data_that_are_no_data_of_the_program_are_told(target):
    with pytest.raises(sa.StanadaptError, match="y"):
        sa.Extended(target, prior_data={"n": 2, "k": 2, "y": [1.0]})


def test_only_a_target_can_be_extended(target):
    with pytest.raises(sa.StanadaptError, match="an Extended already"):
        sa.Extended(sa.Extended(target, reference_law=LAW))
    with pytest.raises(sa.StanadaptError, match="a power of an estimate is biased"):
        sa.Extended(sa.Target(NOISY, {"M": 1, "s": 0.5}, noise="u", **QUIET))
    with pytest.raises(sa.StanadaptError, match="must be a Target"):
        sa.Extended(CODE)


def test_what_needs_the_program_itself_says_so(target):
    extended = sa.Extended(target, reference_law=LAW)
    with pytest.raises(sa.StanadaptError, match="give its attribute `target`"):
        sa.reference(extended, **QUIET)
    with pytest.raises(sa.StanadaptError, match="leave `past` out"):
        sa.sample(extended, "kameleon", past=np.zeros((3, 6)), **QUIET)
    with pytest.raises(sa.StanadaptError, match=r"sample Extended\(target\)"):
        sa.sample(target, "rwm", save_pseudo=True, **QUIET)
    assert extended.target is target


def test_impropriety_is_announced(target):
    with pytest.warns(UserWarning, match=r"improper, as of nearly .*Give a reference_law"):
        sa.Extended(target)
    with pytest.warns(UserWarning, match=r"improper if the power 0.2 of its density is"):
        sa.Extended(target, between=(0.2, 1))
    with pytest.warns(UserWarning, match=r"improper, as of nearly"):
        sa.Extended(target, temperature="collapsed", ladder=LADDER)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sa.Extended(target, 1)
        sa.Extended(target, reference_law=LAW)
        sa.Extended(target, prior_data={"n": 0, "k": 2, "y": []})


def test_attributes_tell_how_it_was_extended(target):
    extended = sa.Extended(target, 3, between=(0.1, 0.8), reference_law=LAW, ladder=LADDER)
    fit = sa.sample(extended, "rwm", chains=1, iter_warmup=5, iter_sampling=9, seed=1, **QUIET)
    assert fit.attrs["pseudo_samples"] == 3
    assert fit.attrs["temperature"] == "free"
    np.testing.assert_array_equal(fit.attrs["temperature_range"], [0.1, 0.8])
    assert fit.attrs["reference_law"] == "ReferenceLaw(Gaussian, 2 parameters)"
    np.testing.assert_array_equal(fit.attrs["ladder"], LADDER[0])
    np.testing.assert_array_equal(fit.attrs["ladder_log_normalizers"], LADDER[1])
    assert repr(extended) == "Extended('program', 3 pseudo-samples, free, 9 parameters)"


def test_import_compiles_nothing():
    code = (
        "import stanadapt; from stanadapt.extended_handle import value_of_extended as f, _opened;"
        "assert f._compiled is None and not _opened.signatures"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


class Native:
    """A target whose value calls hold another constant than its gradient calls."""

    def __init__(self, target, extra):
        self.target, self.extra, self.dim = target, extra, target.dim

    def density(self, chain=0):
        return self.target.density(chain)._replace(value_propto=0)

    def value(self, position):
        return self.target.value(position) + self.extra(position)

    def evaluate(self, position):
        return self.target.evaluate(position)


def test_the_constant_of_native_values_is_found(target):
    from stanadapt.extended import _calibrated

    source = _calibrated(Native(target, lambda x: 7.25))
    assert source.value_propto == 0
    assert source.offset == pytest.approx(7.25, rel=1e-12)
    for extra in (lambda x: x[0], lambda x: np.nan):  # no constant: ask as gradients do
        assert _calibrated(Native(target, extra))[3:] == (1, 0.0)
    assert _calibrated(target)[3:] == (1, 0.0)


@pytest.mark.filterwarnings("ignore:.*(round trips|R-hat|visited)")
def test_what_a_fit_has_learned_can_be_taken_over(target):
    fit = sa.sample(
        target, "parallel_tempering", chains=2, iter_warmup=200, iter_sampling=100, seed=1, **QUIET
    )  # fmt: skip
    group, extended = fit["tempering"], sa.Extended(target, temperature="collapsed", learned=fit)
    count = int(np.isfinite(group["temperature"][0]).sum())
    np.testing.assert_array_equal(
        extended.description["ladder"], group["temperature"][0].values[:count]
    )
    law = sa.ReferenceLaw(group["reference_mean"][0].values, group["reference_sd"][0].values)
    ladder = [group[name][0].values[:count] for name in ("temperature", "log_normalizer")]
    same = sa.Extended(target, temperature="collapsed", reference_law=law, ladder=ladder)
    point = np.array([0.3, -1.0, 2.0, 0.5])
    assert extended.value(point) == same.value(point)


def learned_from(target, sampler="parallel_tempering", **options):
    lengths = {"chains": 1, "iter_warmup": 20, "iter_sampling": 10, "seed": 1}
    return sa.sample(target, sampler, **lengths, **options, **QUIET)


def told(target, fit, **options):
    with pytest.raises(sa.StanadaptError) as caught:
        sa.Extended(target, temperature="collapsed", learned=fit, **options)
    assert caught.value.stage == "settings"
    return caught.value.message


@pytest.mark.filterwarnings("ignore:.*(round trips|R-hat|visited)")
def test_what_has_not_learned_it_is_told(target):
    plain = learned_from(target, "rwm")
    assert "parallel_tempering or pseudo_extended, got one of rwm" in told(target, plain)
    assert "got {'a': 1}" in told(target, {"a": 1})
    assert "leave out the others" in told(target, plain, reference_law=LAW)
    prior = learned_from(target, prior_data={"n": 0, "k": 2, "y": []})
    assert "had no reference law" in told(target, prior)


@pytest.mark.filterwarnings("ignore:.*(round trips|R-hat|visited)")
def test_what_another_target_has_learned_is_told(target):
    other_data = sa.Target(CODE, {"n": 1, "k": 2, "y": [0.4]}, **QUIET)
    other_program = sa.Target(CODE.replace("x[1], 1", "x[2], 1"), target.data, **QUIET)
    for other, what in ((other_data, "data_hash"), (other_program, "program_hash")):
        message = told(target, learned_from(other))
        assert f"but {what} is" in message
        assert "Give the target that was sampled" in message
