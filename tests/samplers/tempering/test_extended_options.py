"""Invalid options of a pseudo-extension are reported; impropriety gives a warning."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import stanadapt as sa
from tests.helpers.extended_program import QUIET
from tests.helpers.noisy_program import PROGRAM as NOISY

CODE = """
data { int n; int k; vector[n] y; }
parameters { vector[k] x; }
model { x ~ normal(0, 3); y ~ normal(x[1], 1); }
"""
REFERENCE = sa.ReferenceDistribution([0.0, 0.0], 3.0)
LADDER = ([0.0, 0.5, 1.0], [0.0, -1.0, 0.0])


@pytest.fixture(scope="module")
def target():
    return sa.Target(CODE, {"n": 1, "k": 2, "y": [0.3]}, **QUIET)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pseudo_samples": 0}, "pseudo_samples must be a whole number, at least 1, got 0"),
        ({"pseudo_samples": 1.5}, "pseudo_samples must be a whole number"),
        ({"temperature": "hot"}, "must be one of free, fixed, collapsed, got 'hot'"),
        ({"between": (0.9, 0.1)}, r"between must increase, got \(0.9, 0.1\)"),
        ({"between": (0.5, 0.5)}, 'use temperature="fixed"'),
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
        ({"ladder": ([0.3, 1], [0, 0])}, r"use between=\(0.3, 1\)"),
        (
            {"reference_distribution": sa.ReferenceDistribution([0.0], 1.0)},
            "the target has 2 unconstrained",
        ),
        ({"reference_distribution": 3.0}, "must be a ReferenceDistribution"),
        ({"prior_data": {"n": 0, "k": 2, "y": []}}, "either reference_distribution or prior_data"),
        (
            {"prior_data": {"n": 0, "k": 3, "y": []}, "reference_distribution": None},
            r"of program \(x\)",
        ),
    ],
)
def test_invalid_options_are_reported(target, options, message):
    with pytest.raises(sa.StanadaptError, match=message):
        sa.Extended(target, **{"reference_distribution": REFERENCE, **options})


def test_prior_data_must_be_data_of_the_program(target):
    with pytest.raises(sa.StanadaptError, match="y"):
        sa.Extended(target, prior_data={"n": 2, "k": 2, "y": [1.0]})


def test_only_a_target_can_be_extended(target):
    with pytest.raises(sa.StanadaptError, match="already an Extended"):
        sa.Extended(sa.Extended(target, reference_distribution=REFERENCE))
    with pytest.raises(sa.StanadaptError, match="a power of an estimate is biased"):
        sa.Extended(sa.Target(NOISY, {"M": 1, "s": 0.5}, noise="u", **QUIET))
    with pytest.raises(sa.StanadaptError, match="must be a Target"):
        sa.Extended(CODE)


def test_functions_that_need_a_target_refuse_an_extended_one(target):
    extended = sa.Extended(target, reference_distribution=REFERENCE)
    with pytest.raises(sa.StanadaptError, match="give its attribute `target`"):
        sa.stan_nuts(extended, **QUIET)
    with pytest.raises(sa.StanadaptError, match="leave `warm_start` out"):
        sa.sample(extended, "kameleon", warm_start=np.zeros((3, 6)), **QUIET)
    with pytest.raises(sa.StanadaptError, match=r"sample Extended\(target\)"):
        sa.sample(target, "rwm", save="pseudo", **QUIET)
    assert extended.target is target


def test_improper_targets_give_a_warning(target):
    with pytest.warns(UserWarning, match=r"improper, as for nearly .*Give a reference_distr"):
        sa.Extended(target)
    with pytest.warns(UserWarning, match=r"improper if its density to the power 0.2 is"):
        sa.Extended(target, between=(0.2, 1))
    with pytest.warns(UserWarning, match=r"improper, as for nearly"):
        sa.Extended(target, temperature="collapsed", ladder=LADDER)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sa.Extended(target, 1)
        sa.Extended(target, reference_distribution=REFERENCE)
        sa.Extended(target, prior_data={"n": 0, "k": 2, "y": []})


def test_attributes_describe_the_extension(target):
    extended = sa.Extended(
        target, 3, between=(0.1, 0.8), reference_distribution=REFERENCE, ladder=LADDER
    )
    fit = sa.sample(extended, "rwm", chains=1, iter_warmup=5, iter_sampling=9, seed=1, **QUIET)
    assert fit.attrs["pseudo_samples"] == 3
    assert fit.attrs["temperature"] == "free"
    np.testing.assert_array_equal(fit.attrs["temperature_range"], [0.1, 0.8])
    assert fit.attrs["reference_distribution"] == repr(REFERENCE)
    np.testing.assert_array_equal(fit.attrs["ladder"], LADDER[0])
    np.testing.assert_array_equal(fit.attrs["ladder_log_normalizers"], LADDER[1])
    assert repr(extended) == "Extended('program', 3 pseudo-samples, free, 9 parameters)"


def test_import_compiles_nothing():
    code = (
        "import stanadapt;"
        "from stanadapt.samplers.tempering import handle;"
        "assert handle.value_of_extended._compiled is None;"
        "assert not handle._extension_at.signatures"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


class Native:
    """A target whose values and gradients drop different constants."""

    def __init__(self, target, extra):
        self.target, self.extra, self.dim = target, extra, target.dim

    def density(self, chain=0):
        return self.target.density(chain)._replace(value_propto=0)

    def value(self, position):
        return self.target.value(position) + self.extra(position)

    def evaluate(self, position):
        return self.target.evaluate(position)


def test_the_constant_of_native_values_is_measured(target):
    from stanadapt.samplers.tempering.extended import _calibrated_source

    source = _calibrated_source(Native(target, lambda x: 7.25))
    assert source.value_propto == 0
    assert source.offset == pytest.approx(7.25, rel=1e-12)
    for extra in (lambda x: x[0], lambda x: np.nan):  # not constant: evaluated as for gradients
        assert _calibrated_source(Native(target, extra))[3:] == (1, 0.0)
    assert _calibrated_source(target)[3:] == (1, 0.0)


@pytest.mark.filterwarnings("ignore:.*(round trips|R-hat|visited)")
def test_learned_references_and_ladders_can_be_reused(target):
    fit = sa.sample(
        target, "parallel_tempering", chains=2, iter_warmup=200, iter_sampling=100, seed=1, **QUIET
    )  # fmt: skip
    group, extended = fit["tempering"], sa.Extended(target, temperature="collapsed", learned=fit)
    count = int(np.isfinite(group["temperature"][0]).sum())
    np.testing.assert_array_equal(
        extended.description["ladder"], group["temperature"][0].values[:count]
    )
    reference = sa.ReferenceDistribution(
        group["reference_mean"][0].values, group["reference_sd"][0].values
    )
    ladder = [group[name][0].values[:count] for name in ("temperature", "log_normalizer")]
    same = sa.Extended(
        target, temperature="collapsed", reference_distribution=reference, ladder=ladder
    )
    point = np.array([0.3, -1.0, 2.0, 0.5])
    assert extended.value(point) == same.value(point)


def learned_from(target, sampler="parallel_tempering", **options):
    lengths = {"chains": 1, "iter_warmup": 20, "iter_sampling": 10, "seed": 1}
    return sa.sample(target, sampler, **lengths, **options, **QUIET)


def refusal(target, fit, **options):
    with pytest.raises(sa.StanadaptError) as caught:
        sa.Extended(target, temperature="collapsed", learned=fit, **options)
    assert caught.value.stage == "settings"
    return caught.value.message


@pytest.mark.filterwarnings("ignore:.*(round trips|R-hat|visited)")
def test_fits_that_have_learned_nothing_are_refused(target):
    plain = learned_from(target, "rwm")
    assert "parallel_tempering or pseudo_extended, got one of rwm" in refusal(target, plain)
    assert "got {'a': 1}" in refusal(target, {"a": 1})
    refused = refusal(target, plain, reference_distribution=REFERENCE)
    assert "leave these and prior_data out" in refused
    prior = learned_from(target, prior_data={"n": 0, "k": 2, "y": []})
    assert "has not learned a reference distribution" in refusal(target, prior)


@pytest.mark.filterwarnings("ignore:.*(round trips|R-hat|visited)")
def test_fits_of_another_target_are_refused(target):
    other_data = sa.Target(CODE, {"n": 1, "k": 2, "y": [0.4]}, **QUIET)
    other_program = sa.Target(CODE.replace("x[1], 1", "x[2], 1"), target.data, **QUIET)
    for other, what in ((other_data, "data_hash"), (other_program, "program_hash")):
        message = refusal(target, learned_from(other))
        assert f"but its {what} is" in message
        assert "Give the target that was sampled" in message
