"""Pseudo-marginal targets: exact distributions from noisy estimates, and refusals."""

import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine.points import ValuePoint, proposed, unused_value, value_at
from stanadapt.errors import StanadaptWarning
from stanadapt.samplers import registered
from stanadapt.targets import noise
from tests.helpers.codes import raises, raises_in, warns
from tests.helpers.command_line import call
from tests.helpers.noisy_program import MEAN, PROGRAM, SD
from tests.helpers.seldom_parameters import slow_except

SMALL = {"kameleon": {"subsample": 100}}
SAMPLERS = registered()
GRADIENT_FREE = [n for n, s in SAMPLERS.items() if not s.uses_gradient and s.exact_on_estimates]


def make(rho=0.0, s=1.0, code=PROGRAM, names=("u",), **data):
    return sa.Target(code, {"M": 1, "s": s, **data}, noise=names, rho=rho)


@pytest.fixture(scope="module")
def target():
    return make()


def z_scores(fit):
    """Return errors of the means and second moments of x in Monte Carlo standard errors."""
    x = (fit.posterior["x"].values - MEAN) / SD
    scores = []
    for values, truth in ((x, 0.0), (x**2, 1.0)):
        batches = values.reshape(values.shape[0] * 20, -1, 2).mean(axis=1)
        error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
        scores.append((batches.mean(axis=0) - truth) / error)
    return np.array(scores)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "rho"), slow_except(
    [("rwm", 0.8), ("am", 0.8)], [(name, rho) for name in GRADIENT_FREE for rho in (0.0, 0.8)],
))  # fmt: skip
def test_draws_are_exact_however_noisy_the_estimate_is(name, rho):
    # with more noise a chain of rwm may stay at one estimate for a large part of warm-up, and lose
    # its scale: it is then too slow for the batches of `z_scores`
    plan = {"chains": 4, "iter_warmup": 4000, "iter_sampling": 40_000}
    fit = sa.sample(make(rho, s=0.6), name, seed=3, **plan, **SMALL.get(name, {}))
    # four t statistics with 79 degrees of freedom: one exceeds 4.5 with probability 1e-4
    assert np.abs(z_scores(fit)).max() < 4.5


@pytest.mark.parametrize("name", GRADIENT_FREE)
def test_noise_is_never_stored(name):
    fit = sa.sample(make(), name, chains=2, iter_warmup=50, iter_sampling=60, seed=1,
                    save_warmup=True, save="unconstrained")  # fmt: skip
    assert set(fit.posterior.data_vars) == {"x", "doubled", "total"}
    assert fit.unconstrained_posterior["position"].shape == (2, 60, 2)
    assert set(fit.warmup_posterior.data_vars) == {"x", "doubled", "total"}
    x = fit.posterior["x"].values
    np.testing.assert_array_equal(fit.unconstrained_posterior["position"].values, x)
    np.testing.assert_allclose(fit.posterior["total"].values, x.sum(axis=-1))


@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
@pytest.mark.parametrize("engine", ["stanli", pytest.param("cmdstan", marks=pytest.mark.cmdstan)])
def test_stan_nuts_moves_the_noise_and_does_not_store_it(engine):
    fit = sa.stan_nuts(make(s=0.3), backend=engine, chains=4, iter_sampling=4000, seed=2)
    assert set(fit.posterior.data_vars) == {"x", "doubled", "total"}
    assert np.abs(z_scores(fit)).max() < 4.5
    assert fit.attrs["density_verdict"] == ("equal" if engine == "cmdstan" else "not checked")


def test_the_command_line_accepts_noise(tmp_path):
    (tmp_path / "my.stan").write_text(PROGRAM)
    (tmp_path / "my.json").write_text('{"M": 2, "s": 0.5}')
    out = tmp_path / "fit.nc"
    arguments = ["sample", tmp_path / "my.stan", "-d", tmp_path / "my.json", "-s", "rwm", "-o", out]
    arguments += ["--noise", "u", "--rho", 0.5, "--iter-warmup", 50, "--iter-sampling", 50, "-q"]
    call(*arguments)
    fit = sa.load(out)
    assert "u" not in fit.posterior
    assert (json.loads(fit.attrs["noise"]), fit.attrs["rho"]) == (["u"], 0.5)
    call(*arguments, "--noise", "x", status=1)


def test_draws_from_estimates_and_from_their_fits():
    fits = [
        sa.sample(make(0.5), "rwm", chains=2, parallel_chains=n, iter_warmup=300, seed=9,
                  iter_sampling=300)
        for n in (1, 2)
    ]  # fmt: skip
    np.testing.assert_array_equal(*(fit.posterior["x"].values for fit in fits))
    target = make()
    fit = sa.sample(target, "rwm", chains=2, iter_warmup=50, iter_sampling=50, seed=1)
    again = sa.sample(target, "rwm", chains=2, iter_warmup=5, iter_sampling=5, seed=1, inits=fit)
    assert again.posterior.sizes["draw"] == 5


def test_estimates_are_densities_without_noise_and_measure_it(target):
    position = np.array([0.4, -1.0, 1.7])
    point = value_at(target.density(), position)
    expected = target.value(position) + 0.5 * 1.7**2
    assert point.log_density == pytest.approx(expected, rel=1e-13)
    position = np.array([0.0, 0.0, 0.0])
    for s in (0.5, 1.0):
        measured = noise.estimate(make(s=s), position, draws=2000, seed=4)
        # log estimate = s u - s^2 / 2; the standard error of an sd is sd / sqrt(2 n)
        assert measured.sd == pytest.approx(s, abs=5 * s / np.sqrt(2 * 4000))
        assert measured.z < 4
    assert noise.estimate(target, position, 50).log_means[0] != 0


def test_noise_of_a_proposal_has_the_requested_correlation():
    target = make(0.6)  # must outlive the density, which contains addresses only
    density = target.density()
    rng = np.random.default_rng(3)
    current, pairs = value_at(density, np.array([0.0, 0.0, 0.5])), []
    for _ in range(4000):
        fresh = unused_value(3)
        fresh.position[:2] = 0.1
        moved = proposed(density, current, fresh, rng)
        assert isinstance(moved, ValuePoint)
        pairs.append((current.position[2], moved.position[2]))
        current = moved
    before, after = np.array(pairs).T
    # from 4000 draws of a chain with correlation 0.6 the standard error is about 0.013
    assert np.corrcoef(before, after)[0, 1] == pytest.approx(0.6, abs=0.06)
    assert after.std() == pytest.approx(1.0, abs=0.1)


def test_other_densities_draw_no_noise(target):
    plain = sa.Target("parameters { vector[2] x; } model { x ~ std_normal(); }")
    density = plain.density()
    assert (density.dim, density.size) == (2, 2)
    rng, fresh = np.random.default_rng(1), unused_value(2)
    fresh.position[:] = 0.2
    proposed(density, value_at(density, np.zeros(2)), fresh, rng)
    assert rng.bit_generator.state == np.random.default_rng(1).bit_generator.state
    assert (target.density().dim, target.density().size) == (2, 3)


def test_doubtful_and_infinite_estimates_are_told():
    # the second statement cancels the normal distribution of u, which adds 40 terms u^2 / 2 to the
    # log estimate and makes its standard deviation large
    code = PROGRAM.replace("u ~ std_normal();", "u ~ std_normal(); target += 0.5 * dot_self(u);")
    measured = noise.estimate(make(code=code, M=40), np.zeros(42), draws=200)
    assert measured.sd > noise.LARGEST_SD
    with warns("noisy_estimate"):
        sa.sample(make(code=code, M=40), "rwm", chains=1, iter_warmup=5, iter_sampling=5, seed=1)
    target = make(code=PROGRAM.replace("target += log", "target += 0 * sqrt(-x[2]); target += log"))
    with pytest.warns(StanadaptWarning):
        fit = sa.sample(target, "rwm", chains=2, iter_warmup=500, iter_sampling=2000, seed=1,
                        inits={"x": [0.0, -3.0]})  # fmt: skip
    assert fit.posterior["x"].values[..., 1].max() <= 0
    assert fit.attrs["n_failed"] > 0


SAMPLERS_WITH_GRADIENTS = [n for n, sampler in SAMPLERS.items() if sampler.uses_gradient]


@pytest.mark.parametrize("name", SAMPLERS_WITH_GRADIENTS)
def test_samplers_with_gradients_are_refused(target, name):
    with raises_in("settings", name, "rwm"):
        sa.sample(target, name, seed=1)


def test_a_sampler_of_several_evaluations_per_move_is_refused(target):
    with raises_in("settings") as caught:
        sa.sample(target, "repelling_attracting", seed=1)
    # once as the sampler that is refused, and not among those that can be used
    assert caught.value.message.count("repelling_attracting") == 1
    assert all(name in caught.value.message for name in ("am,", "rwm"))


@pytest.mark.parametrize(("change", "names", "fact"), [
    (("", ""), ("v",), "x, u"), (("", ""), ("x", "u"), "all"),
    (("vector[2] x; vector[M] u;", "vector[M] u; vector[2] x;"), ("u",), "u, x"),
    (("vector[M] u;", "vector<lower=-9>[M] u;"), ("u",), "unconstrained"),
    (("vector[M] u;", "vector<multiplier=2>[M] u;"), ("u",), "unconstrained"),
    (("u ~ std_normal();", "u ~ normal(0, 2);"), ("u",), "`u ~ std_normal();`"),
    (("u ~ std_normal();", "// u ~ std_normal();"), ("u",), "`u ~ std_normal();`"),
    (("u ~ std_normal();", "x ~ std_normal();"), ("u",), "`u ~ std_normal();`"),
])  # fmt: skip
def test_parameters_that_are_not_noise_are_refused(change, names, fact):
    with raises("invalid_noise", *names, fact):
        make(code=PROGRAM.replace(*change), names=names)


@pytest.mark.parametrize(
    "statement", ["u ~ normal(0, 1);", "u ~ normal(0.0,1.0) ;", "to_vector(u)~std_normal();"]
)
def test_ways_to_declare_the_normal_distribution(statement):
    assert make(code=PROGRAM.replace("u ~ std_normal();", statement)).noise_size == 1


def test_matrices_can_be_noise():
    code = """
    parameters { real x; array[3] vector[2] u; matrix[2, 2] w; }
    model {
      x ~ normal(0, 1);
      for (k in 1:3) u[k] ~ std_normal();
      to_vector(w) ~ std_normal();
      target += 0 * sum(w);
    }
    """
    with raises("invalid_noise", "`u ~ std_normal();`"):
        sa.Target(code, noise=["u", "w"])
    declared = code.replace("for (k in 1:3) u[k] ~ std_normal();", "to_vector(u) ~ std_normal();")
    declared = declared.replace("array[3] vector[2] u", "matrix[3, 2] u")
    assert sa.Target(declared, noise=["u", "w"]).noise_size == 10


@pytest.mark.parametrize("rho", [-0.1, 1.0, 2, "much", None, float("nan")])
def test_rho_out_of_range_is_refused(rho):
    with raises("out_of_range", "rho", repr(rho)):
        make(rho)


@pytest.mark.parametrize("draws", [1, 0, 2.5])
def test_too_few_estimates_are_refused(target, draws):
    with raises("out_of_range", "draws", repr(draws)):
        noise.estimate(target, np.zeros(3), draws)
