"""Pseudo-marginal targets: exact laws from noisy estimates, and what is refused."""

import json

import numpy as np
import pytest
from test_cli import call

import stanadapt as sa
from stanadapt import noise
from stanadapt.density import make_density
from stanadapt.errors import StanadaptError
from stanadapt.points import ValuePoint, proposed, unused_value, value_at
from stanadapt.protocol import registered

# x ~ N(m, diag(v)), and an estimate of it whose log has standard deviation s: its mean is one.
# The noise of the estimate grows with x[1], so that a chain that keeps a stale estimate, counts
# the noise's own density or makes the current estimate anew is biased.
PROGRAM = """
data { int M; real s; }
parameters { vector[2] x; vector[M] u; }
transformed parameters { real doubled = 2 * x[1]; }
model {
  vector[M] terms;
  for (m in 1:M) terms[m] = s * exp(x[1] / 2) * u[m] - square(s * exp(x[1] / 2)) / 2;
  x[1] ~ normal(0.3, 0.5);
  x[2] ~ normal(-2, 3);
  target += log_sum_exp(terms) - log(M);
  u ~ std_normal();
}
generated quantities { real total = sum(x); }
"""
MEAN, SD = np.array([0.3, -2.0]), np.array([0.5, 3.0])
SMALL = {"kameleon": {"subsample": 100}}
FREE = [name for name, sampler in registered().items() if not sampler.uses_gradient]


def make(rho=0.0, s=1.0, code=PROGRAM, names=("u",), **data):
    return sa.Target(code, {"M": 1, "s": s, **data}, noise=names, rho=rho)


@pytest.fixture(scope="module")
def target():
    return make()


def test_there_are_samplers_to_test():
    assert {"rwm", "am", "kameleon"} <= set(FREE)


def z_scores(fit):
    """Means and second moments of x against the exact ones, in their Monte Carlo errors."""
    x = (fit.posterior["x"].values - MEAN) / SD
    found = []
    for values, truth in ((x, 0.0), (x**2, 1.0)):
        batches = values.reshape(values.shape[0] * 20, -1, 2).mean(axis=1)
        error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
        found.append((batches.mean(axis=0) - truth) / error)
    return np.array(found)


@pytest.mark.parametrize("rho", [0.0, 0.8])
@pytest.mark.parametrize("name", FREE)
def test_the_law_is_exact_however_noisy_the_estimate(name, rho):
    fit = sa.sample(make(rho), name, chains=4, iter_warmup=4000, iter_sampling=40_000, seed=2,
                    show_progress=False, **SMALL.get(name, {}))  # fmt: skip
    # four statistics under t with 79 degrees of freedom: 4.5 has odds of 1e-4
    assert np.abs(z_scores(fit)).max() < 4.5


@pytest.mark.parametrize("name", FREE)
def test_noise_is_never_stored(name):
    fit = sa.sample(make(), name, chains=2, iter_warmup=50, iter_sampling=60, seed=1,
                    save_warmup=True, save_unconstrained=True, show_progress=False)  # fmt: skip
    assert set(fit.posterior.data_vars) == {"x", "doubled", "total"}
    assert fit.unconstrained_posterior["position"].shape == (2, 60, 2)
    assert set(fit.warmup_posterior.data_vars) == {"x", "doubled", "total"}
    x = fit.posterior["x"].values
    np.testing.assert_array_equal(fit.unconstrained_posterior["position"].values, x)
    np.testing.assert_allclose(fit.posterior["total"].values, x.sum(axis=-1))


@pytest.mark.filterwarnings("ignore:the reference is the NUTS inside stanli")
@pytest.mark.parametrize("engine", ["stanli", pytest.param("cmdstan", marks=pytest.mark.cmdstan)])
def test_the_reference_moves_the_noise_and_does_not_keep_it(engine):
    fit = sa.reference(make(s=0.3), engine=engine, chains=4, iter_sampling=4000, seed=2,
                       show_progress=False)  # fmt: skip
    assert set(fit.posterior.data_vars) == {"x", "doubled", "total"}
    assert np.abs(z_scores(fit)).max() < 4.5
    assert fit.attrs["density_verdict"] == ("equal" if engine == "cmdstan" else "not checked")


def test_the_command_line_takes_noise(tmp_path):
    (tmp_path / "my.stan").write_text(PROGRAM)
    (tmp_path / "my.json").write_text('{"M": 2, "s": 0.5}')
    out = tmp_path / "fit.nc"
    words = ["sample", tmp_path / "my.stan", "-d", tmp_path / "my.json", "-s", "rwm", "-o", out]
    words += ["--noise", "u", "--rho", 0.5, "--iter-warmup", 50, "--iter-sampling", 50, "-q"]
    call(*words)
    fit = sa.load(out)
    assert "u" not in fit.posterior
    assert (json.loads(fit.attrs["noise"]), fit.attrs["rho"]) == (["u"], 0.5)
    call(*words, "--noise", "x", status=1)


def test_same_seed_same_bits_for_any_number_of_threads():
    fits = [
        sa.sample(make(0.5), "rwm", chains=2, parallel_chains=n, iter_warmup=300, seed=9,
                  iter_sampling=300, show_progress=False)
        for n in (1, 2)
    ]  # fmt: skip
    np.testing.assert_array_equal(*(fit.posterior["x"].values for fit in fits))


def test_the_estimate_is_the_density_less_that_of_the_noise(target):
    position = np.array([0.4, -1.0, 1.7])
    point = value_at(target.density(), position)
    expected = target.value(position) + 0.5 * 1.7**2
    assert point.log_density == pytest.approx(expected, rel=1e-13)


def test_noise_of_a_proposal_has_the_correlation_asked_for():
    target = make(0.6)  # kept: a density does not keep what it points to
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
    # 4000 draws of a chain with correlation 0.6: error of its own estimate about 0.013
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


def test_make_density_without_noise_moves_everything():
    assert make_density(1, 2, 3, 5).dim == 5


def test_a_noisier_estimate_is_seen(target):
    position = np.array([0.0, 0.0, 0.0])
    for s in (0.5, 1.0):
        found = noise.estimate(make(s=s), position, draws=2000, seed=4)
        # log estimate = s u - s^2 / 2: standard error of an sd is sd / sqrt(2 n)
        assert found.sd == pytest.approx(s, abs=5 * s / np.sqrt(2 * 4000))
        assert found.z < 4
    assert noise.estimate(target, position, 50).log_means[0] != 0


def test_a_biased_estimate_is_seen():
    # the law of u is said to be N(0, 1), but the estimate depends on which half it lies in: fine;
    # with 40 noise terms whose law is cancelled but not stated, two seeds disagree
    code = PROGRAM.replace("u ~ std_normal();", "u ~ std_normal(); target += 0.5 * dot_self(u);")
    found = noise.estimate(make(code=code, M=40), np.zeros(42), draws=200)
    assert found.sd > noise.LARGEST_SD
    with pytest.warns(UserWarning, match="standard deviation"):
        sa.sample(make(code=code, M=40), "rwm", chains=1, iter_warmup=5, iter_sampling=5, seed=1,
                  show_progress=False)  # fmt: skip


def test_starting_from_an_earlier_fit():
    target = make()
    fit = sa.sample(target, "rwm", chains=2, iter_warmup=50, iter_sampling=50, seed=1,
                    show_progress=False)  # fmt: skip
    again = sa.sample(target, "rwm", chains=2, iter_warmup=5, iter_sampling=5, seed=1, inits=fit,
                      show_progress=False)  # fmt: skip
    assert again.posterior.sizes["draw"] == 5


SAMPLERS_WITH_GRADIENTS = [n for n, sampler in registered().items() if sampler.uses_gradient]


@pytest.mark.parametrize("name", SAMPLERS_WITH_GRADIENTS)
def test_a_sampler_with_gradients_is_refused(target, name):
    with pytest.raises(StanadaptError, match=r"follows gradients.*rwm") as caught:
        sa.sample(target, name, seed=1)
    assert caught.value.stage == "settings"


@pytest.mark.parametrize(
    ("change", "names", "words"),
    [
        (("", ""), ("v",), "v is no parameter.*it has x, u"),
        (("", ""), ("x", "u"), "nothing to sample"),
        (("vector[2] x; vector[M] u;", "vector[M] u; vector[2] x;"), ("u",), "Move the declar"),
        (("vector[M] u;", "vector<lower=-9>[M] u;"), ("u",), "must be unconstrained"),
        (("vector[M] u;", "vector<multiplier=2>[M] u;"), ("u",), "must be unconstrained"),
        (("u ~ std_normal();", "u ~ normal(0, 2);"), ("u",), "standard normal, by the statement"),
        (("u ~ std_normal();", "// u ~ std_normal();"), ("u",), "standard normal"),
        (("u ~ std_normal();", "x ~ std_normal();"), ("u",), "standard normal"),
    ],
)
def test_what_is_no_noise_is_refused(change, names, words):
    with pytest.raises(StanadaptError, match=words) as caught:
        make(code=PROGRAM.replace(*change), names=names)
    assert caught.value.stage == "settings"


@pytest.mark.parametrize(
    "law", ["u ~ normal(0, 1);", "u ~ normal(0.0,1.0) ;", "to_vector(u)~std_normal();"]
)
def test_ways_to_say_the_law(law):
    assert make(code=PROGRAM.replace("u ~ std_normal();", law)).noise_size == 1


def test_arrays_of_vectors_and_matrices_are_noise_too():
    code = """
    parameters { real x; array[3] vector[2] u; matrix[2, 2] w; }
    model {
      x ~ normal(0, 1);
      for (k in 1:3) u[k] ~ std_normal();
      to_vector(w) ~ std_normal();
      target += 0 * sum(w);
    }
    """
    with pytest.raises(StanadaptError, match="u is standard normal"):
        sa.Target(code, noise=["u", "w"])
    said = code.replace("for (k in 1:3) u[k] ~ std_normal();", "to_vector(u) ~ std_normal();")
    said = said.replace("array[3] vector[2] u", "matrix[3, 2] u")
    assert sa.Target(said, noise=["u", "w"]).noise_size == 10


@pytest.mark.parametrize("rho", [-0.1, 1.0, 2, "much", None, float("nan")])
def test_rho_out_of_range(rho):
    with pytest.raises(StanadaptError, match="rho must be at least 0 and below 1"):
        make(rho)


def test_an_estimator_that_is_not_a_number_is_a_counted_rejection():
    target = make(code=PROGRAM.replace("target += log", "target += 0 * sqrt(-x[2]); target += log"))
    with pytest.warns(UserWarning, match="no finite density"):
        fit = sa.sample(target, "rwm", chains=2, iter_warmup=500, iter_sampling=2000, seed=1,
                        inits={"x": [0.0, -3.0]}, show_progress=False)  # fmt: skip
    assert fit.posterior["x"].values[..., 1].max() <= 0
    assert fit.attrs["n_failed"] > 0
