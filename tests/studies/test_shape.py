"""The shape of a posterior by a fit: on what scales depend, tails without draws, Stan's lines."""

import numpy as np
import pytest
from scipy.stats import norm

import stanadapt as sa
from stanadapt.samplers.whitened.straightened import UNCHANGED
from stanadapt.studies.shape import measure_shape
from tests.helpers.codes import raises
from tests.helpers.funnel_fits import DRAWS, KINDS, MEMBERS, exact, fit, foreign, target


def codes(messages):
    return [message.code for message in messages]


@pytest.mark.parametrize("kind", KINDS)
def test_the_noncentered_program_is_printed(kind):
    shape = measure_shape(target(kind), fit(exact(), kind))
    assert codes(shape.messages) == ["far_from_gaussian"]
    assert shape.program == [
        f"parameters: vector[{MEMBERS}] x_raw;  // in place of x",
        f"transformed parameters: vector[{MEMBERS}] x = m + {KINDS[kind][1]} * x_raw;",
        "model: x_raw ~ std_normal();  // in place of the prior of x",
    ]


NESTED = """parameters { real<lower=0> top; real low; vector[3] group; vector[6] unit; }
model {
  top ~ lognormal(0, 1); low ~ normal(2, 1); group ~ normal(0, top);
  unit ~ normal(group[{2, 2, 1, 1, 3, 3}], exp(low / 2));
}"""
LOCAL = """parameters { real<lower=0> tau; vector<lower=0>[4] local; vector[4] b; }
model { tau ~ lognormal(-3, 1); local ~ lognormal(1.5, 1); b ~ normal(0, 2.5 * tau * local); }"""


def nested(rng, shape):
    top, low = np.exp(rng.standard_normal(shape)), 2.0 + rng.standard_normal(shape)
    group = top[..., None] * rng.standard_normal((*shape, 3))
    noise = np.exp(low / 2)[..., None] * rng.standard_normal((*shape, 6))
    return {"top": top, "low": low, "group": group, "unit": group[..., [1, 1, 0, 0, 2, 2]] + noise}


def local(rng, shape):
    tau, scales = np.exp(rng.normal(-3.0, 1.0, shape)), np.exp(rng.normal(1.5, 1.0, (*shape, 4)))
    b = 2.5 * tau[..., None] * scales * rng.standard_normal((*shape, 4))
    return {"tau": tau, "local": scales, "b": b}


@pytest.mark.parametrize(("code", "draw", "lines"), [
    (NESTED, nested, [
        "vector[3] group = top * group_raw;",
        "vector[6] unit = group[{2, 2, 1, 1, 3, 3}] + exp(low / 2) * unit_raw;",
    ]),
    (LOCAL, local, ["vector[4] b = 2.5 * tau * local .* b_raw;"]),
])  # fmt: skip
def test_priors_on_priors_are_printed(code, draw, lines):
    """Members with locations or scales of their own are written as vectors."""
    made = foreign(draw(np.random.default_rng(5), DRAWS))
    shape = measure_shape(sa.Target(code), made)
    found = [text for text in shape.program if text.startswith("transformed parameters: ")]
    assert found == [f"transformed parameters: {line}" for line in lines]


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_a_neck_that_was_cut_off_is_found_with_its_mass(share):
    """Draws without it look perfect: they are independent, and all chains agree."""
    v, cut = exact(), np.quantile(exact(), share)
    v[v < cut] = np.random.default_rng(3).choice(v[v > cut], (v < cut).sum())
    made = fit(v)
    assert sa.diagnose(made).codes == []
    assert sa.diagnose(made, target()).codes == [
        "tail_missing", "far_from_gaussian", "tail_missed", "gaussian_block",
    ]  # fmt: skip
    (tail,) = measure_shape(target(), made).tails
    assert (tail.name, tail.side) == ("v", "below")
    # an average of 24 conditional densities, which are equal; 600 draws have no neighbor at the cut
    assert tail.mass == pytest.approx(norm.cdf(cut, 1.0, 3.0), abs=0.01)


def test_whole_fits_and_gaussians_lack_nothing():
    for seed in range(3):
        assert measure_shape(target(), fit(exact(seed), seed=seed)).tails == []
    code = "parameters { vector[3] x; } model { x ~ normal([1, -20, 0]', [1e-3, 50, 2]'); }"
    gaussian = sa.Target(code)
    x = np.random.default_rng(1).standard_normal((*DRAWS, 3)) * [1e-3, 50, 2] + [1, -20, 0]
    made = foreign({"x": x})
    assert measure_shape(gaussian, made).found.distance_before < 0.01
    assert sa.diagnose(made, gaussian).codes == []
    assert codes(measure_shape(target(), fit(exact()[:, :5])).messages) == ["shape_unknown"]


def test_tails_end_with_the_last_of_all_draws():
    """Beyond the lowest of the draws at which gradients were computed, some percent may lie."""
    v = exact(1)
    cut, kept = (
        np.quantile(v, 0.03),
        np.unique(np.linspace(0, DRAWS[1] - 1, 150).round().astype(int)),
    )
    thinned = v[:, kept]
    thinned[thinned < cut] = np.random.default_rng(3).choice(v[v > cut], (thinned < cut).sum())
    v[:, kept] = thinned
    assert measure_shape(target(), fit(v)).tails == []


def test_fits_of_other_programs_and_no_targets_are_refused():
    made = foreign({"w": exact()})
    with raises("missing_parameter"):
        sa.diagnose(made, target())
    with raises("not_a_target", "'funnel.stan'"):
        sa.diagnose(fit(exact()), "funnel.stan")


def test_a_fit_that_was_straightened_is_not_sent_to_the_default():
    made = fit(exact())
    (before,) = measure_shape(target(), made).messages
    made.attrs["straightening"] = "x[1..6] scale with v"
    made.posterior.attrs["straightening"] = "x[1..6] scale with v"
    (after,) = measure_shape(target(), made).messages
    assert "default sampler" in before
    assert "default sampler" not in after
    assert "x_raw" in after
    # such as a block that is found from more draws than these
    shape = measure_shape(target(), made)
    found = UNCHANGED._replace(distance_before=9.8)
    (after,) = shape._replace(found=found, program=[]).messages
    assert after.endswith("a Gaussian). This fit was drawn from the straightened posterior.")
    (before,) = shape._replace(found=found, program=[], was_straightened=False).messages
    assert "No coordinates were found" in before
