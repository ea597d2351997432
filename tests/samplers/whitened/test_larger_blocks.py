"""Where an exact block of some hubs is found and there are many, one with all of them is sought."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.diagnostics.mixing import mixing
from stanadapt.engine.block_map import unpacked
from stanadapt.engine.triangular_map import no_map
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.block_structure import find_block, is_exact
from stanadapt.samplers.whitened.findings import straightening
from stanadapt.samplers.whitened.probes import Probes
from stanadapt.samplers.whitened.scaled_block import places_without
from stanadapt.samplers.whitened.schedule import WARMUP
from stanadapt.samplers.whitened.straightened import Straightened
from tests.helpers.gaussian_blocks import LEVELS, LocalLevel, anywhere
from tests.helpers.made_up_blocks import at, begun, filled
from tests.helpers.short_runs import values

SERIES, LENGTH = 4, 15
SCALES = 2 * SERIES
DIM = SCALES + SERIES * LENGTH
BOUNDS = np.column_stack([np.arange(SCALES), np.zeros((SCALES, 3))])
Y = np.random.default_rng(3).standard_normal((SERIES, LENGTH))


def gradients(x, strength):
    """Gradients of local levels, whose states have a further term in all but the first series."""
    u, logs = x[:, SCALES:].reshape(-1, SERIES, LENGTH), x[:, :SCALES, None]
    walk, noise = np.exp(-2.0 * logs[:, :SERIES]), np.exp(-2.0 * logs[:, SERIES:])
    steps = walk * np.diff(u, axis=2)
    found = noise * (Y - u)
    found[:, :, 1:] -= steps
    found[:, :, :-1] += steps
    found[:, :, 0] -= u[:, :, 0] / 4.0
    found[:, 1:] -= strength * np.tanh(u[:, 1:])
    return np.hstack([np.sin(x[:, :SCALES]), found.reshape(len(x), -1)])


def looked_twice(strength):
    """Progress after a look that shows a part, and after one that may show more of it."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((700, DIM))
    x[:, :SCALES] = rng.uniform(-1.5, 1.0, (700, SCALES))
    rows = np.stack([x, gradients(x, strength)], axis=1)
    last = places_without(x, np.arange(SCALES))
    last[:, 1] = gradients(last[:, 0], strength)
    settings, progress, states = begun(np.zeros((4, DIM)))
    states = [
        filled(s, 40, 0.0, own[:40, 0], own[:40, 1])._replace(probes=Probes(own))
        for s, own in ((s, rows[k::4]) for k, s in enumerate(states))
    ]
    first = np.concatenate([states[0].probes.rows, last])
    states[0] = states[0]._replace(probes=Probes(first))
    far = Straightened(no_map(), (), 2.0, 2.0, part=9.0)
    progress = at(progress, parts.FIND_STEP, 40, straightened=far, probes_seek_block=True)
    learn = WARMUP.stages[parts.FIND_STEP].learn
    part, states = learn(settings, progress._replace(bounds=BOUNDS, then=parts.METRIC), states)
    assert part.then == parts.TRAVEL
    assert part.learned.probes_seek_block
    for state in states:
        own = state.probes.rows
        own[:, 1] = gradients(own[:, 0], strength)
    return part, learn(settings, part._replace(then=parts.METRIC), states)[0]


def test_a_part_of_few_coordinates_is_taken_as_it_is():
    """There are no places for scales then."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1.0, 1.0, (300, 5))
    g = np.column_stack([
        -x[:, :2], x[:, 3:4] - 2.0 * x[:, 2:3], x[:, 2:3] - 2.0 * x[:, 3:4], -np.sinh(x[:, 4:])
    ])  # fmt: skip
    g[:, 2:4] *= np.exp(-2.0 * x[:, :1])
    rows = np.stack([x, g], axis=1)
    settings, progress, states = begun(np.zeros((4, 5)))
    states = [
        filled(s, 40, 0.0, x[:40], g[:40])._replace(probes=Probes(rows[k::4]))
        for k, s in enumerate(states)
    ]
    far = Straightened(no_map(), (), 2.0, 2.0, part=9.0)
    progress = at(progress, parts.FIND_STEP, 40, straightened=far, probes_seek_block=True)
    progress = progress._replace(bounds=BOUNDS[:2], then=parts.METRIC)
    progress, states = WARMUP.stages[parts.FIND_STEP].learn(settings, progress, states)
    assert len(block_of(progress).block) == 3
    assert not progress.learned.probes_seek_block


def block_of(progress):
    return unpacked(progress.learned.straightened.straightening.block)


def test_the_block_of_all_series_is_taken_or_the_part_stays():
    part, whole = looked_twice(0.0)
    assert len(block_of(part).hubs) < SCALES
    assert (whole.then, whole.learned.straightened.exact) == (parts.TRAVEL, True)
    np.testing.assert_array_equal(block_of(whole).hubs, np.arange(SCALES))
    np.testing.assert_array_equal(np.sort(block_of(whole).block), np.arange(SCALES, DIM))
    part, after = looked_twice(0.3)
    np.testing.assert_array_equal(np.sort(block_of(part).block), SCALES + np.arange(LENGTH))
    np.testing.assert_array_equal(block_of(after).block, block_of(part).block)
    assert (after.then, after.learned.straightened.exact) == (parts.METRIC, True)
    assert not after.learned.probes_seek_block


def test_a_block_is_exact_at_draws_if_its_members_are_normal_there():
    level, x = LocalLevel(), anywhere(np.random.default_rng(1), 300)
    g = np.array([level.gradient(row) for row in x])
    block = find_block(x, g, {LEVELS: None, LEVELS + 1: None}).map
    assert is_exact(block, x, g)
    g[:2, :LEVELS] += 0.1  # of few draws, it may be rounding
    assert is_exact(block, x, g)
    g[:4, :LEVELS] += 0.1
    assert not is_exact(block, x, g)
    g[0] = np.nan
    assert not is_exact(block, x, g)


@pytest.mark.parametrize(("normal", "said"), [(True, "exact"), (False, "nearly")])
def test_a_block_that_is_exact_at_draws_is_said_to_be(normal, said):
    part = looked_twice(0.3)[0].learned.straightened
    found = straightening(
        part._replace(exact=False, normal=normal), [f"x[{k}]" for k in range(DIM)]
    )
    assert found["gaussian_block"] == said
    assert ("straightened exactly" in found["straightening"]) == normal


# --- a whole run ----------------------------------------------------------------------------------

DATA = f"data {{ matrix[{SERIES}, {LENGTH}] Y; }}"
PRIORS = "su ~ normal(0, 1); sy ~ normal(0, 1);"
SIGMAS = f"vector<lower=0>[{SERIES}] su; vector<lower=0>[{SERIES}] sy;"
CENTERED = f"""{DATA} parameters {{ {SIGMAS} matrix[{SERIES}, {LENGTH}] u; }}
model {{ {PRIORS} for (k in 1:{SERIES}) {{
  u[k, 1] ~ normal(0, 2); u[k, 2:] ~ normal(u[k, :{LENGTH - 1}], su[k]); Y[k] ~ normal(u[k], sy[k]);
}} }}"""
MARGINAL = f"""{DATA} parameters {{ {SIGMAS} }}
model {{ {PRIORS} for (k in 1:{SERIES}) {{
  matrix[{LENGTH}, {LENGTH}] S;
  for (i in 1:{LENGTH}) for (j in 1:{LENGTH}) S[i, j] = 4 + square(su[k]) * (min(i, j) - 1);
  Y[k]' ~ multi_normal(rep_vector(0, {LENGTH}), add_diag(S, square(sy[k])));
}} }}"""


@pytest.mark.slow
def test_independent_series_have_their_necks():
    """The search stopped at the block of one of them, and draws of the others were not usable."""
    rng = np.random.default_rng(113)
    walks = np.cumsum([[0.3], [0.05], [0.6], [0.2]] * rng.standard_normal(Y.shape), axis=1)
    data = {"Y": walks + [[0.5], [0.7], [0.3], [0.4]] * rng.standard_normal(Y.shape)}
    fit = sa.sample(sa.Target(CENTERED, data), seed=1)
    assert fit.attrs["verdict"] == "fine"
    assert "given su[1..4] and sy[1..4]: Gaussian" in fit.attrs["straightening"]
    exact = sa.sample(sa.Target(MARGINAL, data), seed=2, iter_sampling=4000)
    for name in ("su", "sy"):
        for k in range(SERIES):
            draws, right = values(fit, name)[..., k], values(exact, name)[..., k]
            for share in (0.01, 0.05, 0.5, 0.95):
                below = (draws < np.quantile(right, share)).astype(float)
                size = 1.0 / (1.0 / mixing(below).ess_bulk + 1.0 / mixing(right).ess_bulk)
                error = np.sqrt(share * (1.0 - share) / size)
                assert below.mean() == pytest.approx(share, abs=4.0 * error)
