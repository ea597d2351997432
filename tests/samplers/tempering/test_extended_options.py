"""Invalid options of a pseudo-extension are reported; impropriety gives a warning."""

import importlib
import pickle
import re
import warnings

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.samplers.tempering import Extended, ReferenceDistribution
from tests.helpers.codes import raises, raises_in, warns
from tests.helpers.noisy_program import PROGRAM as NOISY
from tests.helpers.stan_target import shared_target

CODE = """
data { int n; int k; vector[n] y; }
parameters { vector[k] x; }
model { x ~ normal(0, 3); y ~ normal(x[1], 1); }
"""
REFERENCE = ReferenceDistribution([0.0, 0.0], 3.0)
LADDER = ([0.0, 0.5, 1.0], [0.0, -1.0, 0.0])
SHORT_RUNS = pytest.mark.filterwarnings(
    r"ignore:.*\[(few_round_trips|chains_disagree_on_modes|uneven_visits)\]"
)
target = shared_target(CODE, {"n": 1, "k": 2, "y": [0.3]})


@pytest.mark.parametrize(("options", "code", "facts"), [
    ({"pseudo_samples": 0}, "out_of_range", ["pseudo_samples", 0]),
    ({"pseudo_samples": 1.5}, "out_of_range", ["pseudo_samples", 1.5]),
    ({"temperature": "hot"}, "extension_option", ["temperature", "collapsed", "'hot'"]),
    ({"between": (0.9, 0.1)}, "extension_option", ["between", "(0.9, 0.1)"]),
    ({"between": (0.5, 0.5)}, "extension_option", ["between", "(0.5, 0.5)"]),
    ({"between": (-0.1, 1)}, "extension_option", ["between", -0.1]),
    ({"between": (0.1, 5)}, "extension_option", ["between", 5]),
    ({"between": 0.5}, "extension_option", ["between", 0.5]),
    ({"temperature": "fixed", "fixed_at": 1.5}, "extension_option", ["fixed_at", 1.5]),
    ({"temperature": "fixed", "fixed_at": np.nan}, "extension_option", ["fixed_at", "nan"]),
    ({"temperature": "fixed", "ladder": LADDER}, "extension_conflict", ["ladder"]),
    ({"temperature": "collapsed"}, "extension_conflict", ["ladder"]),
    ({"ladder": ([0, 0.7, 0.5, 1], [0, 0, 0, 0])}, "invalid_ladder", ["[0, 0.7, 0.5, 1]"]),
    ({"ladder": ([0, 0.7], [0, 0])}, "invalid_ladder", ["[0, 0.7]"]),
    ({"ladder": ([-0.1, 1], [0, 0])}, "invalid_ladder", ["[-0.1, 1]"]),
    ({"ladder": ([0, 1], [0, np.inf])}, "invalid_ladder", ["log_normalizers", "inf"]),
    ({"ladder": ([0, 1], [0])}, "invalid_ladder", ["([0, 1], [0])"]),
    ({"ladder": ([1], [0])}, "invalid_ladder", ["([1], [0])"]),
    ({"ladder": 3}, "invalid_ladder", ["ladder"]),
    ({"ladder": ([0.3, 1], [0, 0])}, "invalid_ladder", ["between=(0.3, 1)"]),
    ({"reference_distribution": ReferenceDistribution([0.0], 1.0)}, "reference_size", [2, 1]),
    ({"reference_distribution": 3.0}, "extension_option", ["reference_distribution", 3.0]),
    ({"prior_data": {"n": 0, "k": 2, "y": []}}, "extension_conflict", ["prior_data"]),
])  # fmt: skip
def test_invalid_options_are_reported(target, options, code, facts):
    with raises(code, *facts):
        Extended(target, **{"reference_distribution": REFERENCE, **options})


def test_prior_data_and_targets_that_cannot_be_extended(target):
    for data, fact in (({"n": 2, "k": 2, "y": [1.0]}, "y"), ({"n": 0, "k": 3, "y": []}, "x")):
        with pytest.raises(sa.StanadaptError, match=fact):
            Extended(target, prior_data=data)
    with raises("not_extensible"):
        Extended(Extended(target, reference_distribution=REFERENCE))
    with raises("not_extensible", "noise u"):
        Extended(sa.Target(NOISY, {"M": 1, "s": 0.5}, noise="u"))
    with pytest.raises(sa.StanadaptError, match="Target"):
        Extended(CODE)
    with raises("extension_option", "fit_reference") as caught:
        Extended(target, reference_distribution="pathfinder")
    module, _, name = re.search(r"(stanadapt[\w.]+)", caught.value.message)[1].rpartition(".")
    assert callable(getattr(importlib.import_module(module), name))


def test_functions_that_need_a_target_refuse_an_extended_one(target):
    extended = Extended(target, reference_distribution=REFERENCE)
    with pytest.raises(sa.StanadaptError, match="`target`"):
        sa.stan_nuts(extended)
    with raises("option_not_used", "warm_start"):
        sa.sample(extended, "kameleon", warm_start=np.zeros((3, 6)))
    with raises("option_not_used", "save"):
        sa.sample(target, "rwm", save="pseudo")
    assert extended.target is target


def test_improper_targets_give_a_warning(target):
    with warns("improper_extension", "reference_distribution"):
        Extended(target)
    with warns("improper_extension", 0.2):
        Extended(target, between=(0.2, 1))
    with warns("improper_extension"):
        Extended(target, temperature="collapsed", ladder=LADDER)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Extended(target, 1)
        Extended(target, reference_distribution=REFERENCE)
        Extended(target, prior_data={"n": 0, "k": 2, "y": []})


def test_extensions_are_described_and_their_constants_measured(target):
    extended = Extended(
        target, 3, between=(0.1, 0.8), reference_distribution=REFERENCE, ladder=LADDER
    )
    fit = sa.sample(extended, "rwm", chains=1, iter_warmup=5, iter_sampling=9, seed=1)
    assert fit.attrs["pseudo_samples"] == 3
    assert fit.attrs["temperature"] == "free"
    np.testing.assert_array_equal(results.attribute(fit, "temperature_range"), [0.1, 0.8])
    assert fit.attrs["reference_distribution"] == repr(REFERENCE)
    np.testing.assert_array_equal(results.attribute(fit, "ladder"), LADDER[0])
    normalizers = results.attribute(fit, "ladder_log_normalizers")
    np.testing.assert_array_equal(normalizers, LADDER[1])
    assert repr(extended) == "Extended('program', 3 pseudo-samples, free, 9 parameters)"
    from stanadapt.samplers.tempering.extended import _calibrate_source

    source = _calibrate_source(Native(target, lambda x: 7.25))
    assert source.value_propto == 0
    assert source.offset == pytest.approx(7.25, rel=1e-12)
    for extra in (lambda x: x[0], lambda x: np.nan):  # not constant: evaluated like gradients
        assert _calibrate_source(Native(target, extra))[3:5] == (1, 0.0)
    assert _calibrate_source(target)[3:5] == (1, 0.0)


class Native:
    """A target with values and gradients that drop different constants."""

    def __init__(self, target, extra):
        self.target, self.extra, self.dim = target, extra, target.dim

    def density(self, chain=0):
        return self.target.density(chain)._replace(value_propto=0)

    def value(self, position):
        return self.target.value(position) + self.extra(position)

    def evaluate(self, position):
        return self.target.evaluate(position)


@SHORT_RUNS
@pytest.mark.parametrize(("family", "degrees"), [("gaussian", np.inf), ("student_t", 5.0)])
def test_learned_references_and_ladders_can_be_reused(target, family, degrees):
    fit = sa.sample(
        target, "parallel_tempering", chains=2, iter_warmup=200, iter_sampling=100, seed=1,
        reference_family=family,
    )  # fmt: skip
    group, extended = fit["tempering"], Extended(target, temperature="collapsed", learned=fit)
    count = int(np.isfinite(group["temperature"][0]).sum())
    np.testing.assert_array_equal(
        extended.description["ladder"], group["temperature"][0].values[:count]
    )
    reference = ReferenceDistribution(
        group["reference_mean"][0].values, group["reference_sd"][0].values, degrees=degrees
    )
    ladder = [group[name][0].values[:count] for name in ("temperature", "log_normalizer")]
    same = Extended(
        target, temperature="collapsed", reference_distribution=reference, ladder=ladder
    )
    point = np.array([0.3, -1.0, 2.0, 0.5])
    assert extended.value(point) == same.value(point)


def learned_from(target, sampler="parallel_tempering", **options):
    lengths = {"chains": 1, "iter_warmup": 20, "iter_sampling": 10, "seed": 1}
    return sa.sample(target, sampler, **lengths, **options)


def refusal(target, fit, **options):
    with raises_in("settings") as caught:
        Extended(target, temperature="collapsed", learned=fit, **options)
    return caught.value


@SHORT_RUNS
def test_fits_of_other_targets_or_without_learning_are_refused(target):
    plain = learned_from(target, "rwm")
    for fit, fact in ((plain, "rwm"), ({"a": 1}, "{'a': 1}")):
        error = refusal(target, fit)
        assert error.code == "nothing_learned"
        assert fact in error.message
    assert refusal(target, plain, reference_distribution=REFERENCE).code == "extension_conflict"
    prior = learned_from(target, prior_data={"n": 0, "k": 2, "y": []})
    error = refusal(target, prior)
    assert error.code == "nothing_learned"
    assert "prior_data" in error.message
    other_data = sa.Target(CODE, {"n": 1, "k": 2, "y": [0.4]})
    other_program = sa.Target(CODE.replace("x[1], 1", "x[2], 1"), target.data)
    for other, fact in ((other_data, "data_hash"), (other_program, "program_hash")):
        assert fact in refusal(target, learned_from(other)).message


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
def test_constants_of_the_log_density_change_no_weight(prior):
    """They are those that `~` drops; free temperatures would compare them with powers of others."""
    program = (
        "data { real c; real sd; } parameters { vector[2] x; } "
        "model { target += c + log_sum_exp(normal_lupdf(x | -2, sd), normal_lupdf(x | 3, sd)); }"
    )
    position, found = np.array([-2.0, -1.9, 3.1, 3.0, 0.4, -0.3]), []
    for c in (0.0, 40.0, -40.0):
        target = sa.Target(program, {"c": c, "sd": 0.5})
        extended = Extended(target, 2, prior_data={"c": 2 * c, "sd": 3.0} if prior else None)
        weights = extended.split_positions(position[None, None])[2]
        assert weights.min() > 0.01
        found.append(np.append(extended.evaluate(position)[1], weights))
        copied = pickle.loads(pickle.dumps(extended))
        np.testing.assert_array_equal(copied.evaluate(position)[1], extended.evaluate(position)[1])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-9)
