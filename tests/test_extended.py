"""Pseudo-extended targets through `sample`: exact laws, Stan's shapes, the same bits."""

import extended_formula
import numpy as np
import pytest
from test_samplers import FASTER

import stanadapt as sa
from stanadapt import results
from stanadapt.driver import Chain, run
from stanadapt.inits import initial_positions
from stanadapt.plan import make_plan
from stanadapt.protocol import find, registered

CODE = """
data { int n; vector[n] y; }
parameters { real<lower=0> s; matrix[2, 2] m; simplex[3] p; }
transformed parameters { matrix[2, 2] doubled = 2 * m; }
model {
  s ~ gamma(3, 2);
  to_vector(m) ~ normal(1, 2);
  y ~ normal(m[1, 2], s);
  p ~ dirichlet([1, 2, 3]');
}
generated quantities {
  real z = normal_rng(m[1, 2], s);
  vector[n] log_lik;
  for (i in 1 : n) log_lik[i] = normal_lpdf(y[i] | m[1, 2], s);
}
"""
DIM = 7
QUIET = {"show_progress": False}


@pytest.fixture(scope="module")
def target():
    return sa.Target(CODE, {"n": 3, "y": [0.5, 1.0, 2.0]}, **QUIET)


def extend(target, n=2, **options):
    options.setdefault("reference_law", sa.ReferenceLaw(np.full(DIM, 0.2), 2.0))
    return sa.Extended(target, n, **options)


@pytest.mark.filterwarnings("ignore:.*had no finite density")
@pytest.mark.filterwarnings("ignore:.*from trajectories that")
@pytest.mark.filterwarnings("ignore:.*round trips")
@pytest.mark.filterwarnings("ignore:.*was visited")
@pytest.mark.filterwarnings("ignore:.*R-hat")
@pytest.mark.parametrize("name", registered())
def test_every_sampler_draws_in_stan_shapes_and_counts_base_evaluations(target, name):
    fit = sa.sample(extend(target, 3), name, chains=2, iter_warmup=100, iter_sampling=80, seed=3,
                    save_warmup=True, save_unconstrained=True, **FASTER.get(name, {}),
                    **QUIET)  # fmt: skip
    posterior = results.dataset(fit, "posterior")
    assert {n: v.shape[2:] for n, v in posterior.data_vars.items()} == {
        "s": (), "m": (2, 2), "p": (3,), "doubled": (2, 2), "z": (),
    }  # fmt: skip
    assert results.dataset(fit, "log_likelihood")["log_lik"].shape == (2, 80, 3)
    np.testing.assert_allclose(posterior["doubled"], 2 * posterior["m"])
    np.testing.assert_allclose(posterior["p"].sum(axis=-1), 1.0)
    raw = results.dataset(fit, "unconstrained_posterior")["position"]
    assert raw.shape == (2, 80, 3 * (DIM + 1))
    kind = "n_gradients" if registered()[name].uses_gradient else "n_density"
    column = results.dataset(fit, "sample_stats")[kind].values
    assert column.sum() == fit.attrs[kind] - fit.attrs[f"{kind}_warmup"] > 0
    assert not np.any(column % 3)
    assert fit.attrs["pseudo_samples"] == 3
    assert fit.attrs["temperature"] == "free"


@pytest.mark.filterwarnings("ignore:.*had no finite density")
@pytest.mark.parametrize("name", ["rwm", "mala", "nuts"])
@pytest.mark.parametrize("law", [None, sa.ReferenceLaw(np.zeros(DIM), 3.0, degrees=4.0)])
def test_one_pseudo_sample_is_the_base_draw_for_draw(target, name, law):
    plan = {"chains": 2, "iter_warmup": 150, "iter_sampling": 150, "seed": 5, **QUIET}
    one = sa.Extended(target, 1, temperature="fixed", fixed_at=0.3, reference_law=law)
    base, extended = (results.columns(sa.sample(t, name, **plan)) for t in (target, one))
    assert base.keys() == extended.keys()
    for column, draws in base.items():
        np.testing.assert_array_equal(extended[column], draws)


@pytest.mark.parametrize("temperature", ["free", "fixed"])
def test_same_seed_same_bits_for_any_chunk_and_thread(target, temperature):
    extended = extend(target, temperature=temperature)
    sampler, settings = find("rwm")
    plan = make_plan(chains=1, parallel_chains=1, iter_warmup=50, iter_sampling=200, thin=1,
                     seed=1, save_warmup=True, show_progress=False)  # fmt: skip
    start = initial_positions(extended, None, [np.random.default_rng(1)])[0]

    def drawn(chunk):
        chain = Chain(sampler, settings, extended.density(), start, np.random.default_rng(2), plan,
                      lambda: extended.constrainer(8), len(target.column_names))  # fmt: skip
        assert run([chain], 1, chunk=chunk) is False
        return chain.warmup.constrained, chain.sampling.constrained

    for small, large in zip(drawn(7), drawn(10**6), strict=True):
        np.testing.assert_array_equal(small, large)
    fits = [
        sa.sample(extended, "rwm", chains=3, parallel_chains=threads, iter_warmup=100,
                  iter_sampling=200, seed=9, **QUIET)
        for threads in (1, 3)
    ]  # fmt: skip
    one, three = (results.columns(fit) for fit in fits)
    for column, draws in one.items():
        np.testing.assert_array_equal(three[column], draws)


# --- exact laws ----------------------------------------------------------------------------------

# the 1-D example of the paper: 0.5 N(-1, variance 0.1) + 0.5 N(1, variance 0.02)
MIXTURE = """
parameters { real x; }
model {
  target += log_sum_exp(normal_lpdf(x | -1, sqrt(0.1)), normal_lpdf(x | 1, sqrt(0.02))) - log(2);
}
"""
TRUTH = {"x": 0.0, "square": 1.06, "positive": 0.50038}
FUNCTIONS = {"square": lambda v: v["x"] ** 2, "positive": lambda v: v["x"] > 0}


def log_mixture(x):
    one = -0.5 * (x + 1) ** 2 / 0.1 - 0.5 * np.log(0.1)
    return (
        np.logaddexp(one, -0.5 * (x - 1) ** 2 / 0.02 - 0.5 * np.log(0.02))
        - np.log(2)
        - 0.5 * np.log(2 * np.pi)
    )


@pytest.fixture(scope="module")
def two_modes():
    """80,000 draws of four chains; d = 1 is the one case where the flat law of b is proper."""
    with pytest.warns(UserWarning, match=r"is improper, as of nearly\s+every Stan program"):
        extended = sa.Extended(sa.Target(MIXTURE, **QUIET), 2)
    return sa.sample(extended, "rwm", iter_warmup=5000, iter_sampling=100_000, thin=5, seed=1,
                     save_pseudo=True, **QUIET)  # fmt: skip


def test_weighted_means_are_those_of_the_target(two_modes):
    """Three normal statistics within 4.5 errors: odds of a false alarm 2e-5."""
    table = sa.weighted_summary(two_modes, FUNCTIONS)
    for name, truth in TRUTH.items():
        row = table.loc[name]
        assert abs(row["mean"] - truth) < 4.5 * row["mcse"]
        assert abs(row["draws_mean"] - truth) < 4.5 * row["draws_mcse"]
    # far below what wrong weights would do: pooled ones shift E x by 0.14, none E x^2 by 2
    assert table.loc["x", "mcse"] < 0.02
    assert table.loc["square", "mcse"] < 0.004
    # Monte Carlo errors of both are themselves known to some 5 %
    assert np.all(table["mcse"] < 1.15 * table["draws_mcse"])


def test_pooled_and_missing_weights_give_other_means(two_modes):
    pseudo = results.dataset(two_modes, "pseudo")
    table = sa.weighted_summary(two_modes)
    x, b = pseudo["x"].values, pseudo["temperature"].values
    raw = np.exp((1 - b) * log_mixture(x))
    shares = raw / raw.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(shares, pseudo["weight"], rtol=1e-9, atol=1e-12)
    assert np.sum(raw * x) / raw.sum() > 4.5 * table.loc["x", "mcse"]
    assert np.mean(x**2) > 1.5


GAUSSIAN = """
data { int n; vector[n] y; }
parameters { vector[2] x; }
model { x[1] ~ normal(1, 2); x[2] ~ normal(-3, 0.2); y ~ normal(x[1], 0.5); }
"""
SHIFT = np.linspace(0.0, 1.0, 4)
# y = 2, 3: precision 1/4 + 8, mean (1/4 + 20) / 8.25
LAW = {"x[1]": (20.25 / 8.25, 8.25**-0.5), "x[2]": (-3.0, 0.2)}


@pytest.fixture(scope="module")
def gaussian():
    return sa.Target(GAUSSIAN, {"n": 2, "y": [2.0, 3.0]}, **QUIET)


WIDE = sa.ReferenceLaw([1.5, -3.2], [1.0, 0.5])
EXACT = {
    "free": {"reference_law": WIDE},
    "free, ladder": {"reference_law": WIDE, "ladder": (SHIFT, -3.0 * SHIFT)},
    "fixed": {"temperature": "fixed", "fixed_at": 0.2, "reference_law": WIDE},
    "collapsed": {"temperature": "collapsed", "reference_law": WIDE, "ladder": (SHIFT, -SHIFT)},
    "prior data": {"between": (0.1, 0.9), "prior_data": {"n": 0, "y": []}},
}


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("case", EXACT)
def test_draws_have_the_law_of_the_target(gaussian, case, n):
    """Eight statistics within 5 errors: odds of a false alarm 5e-6 a case."""
    extended = sa.Extended(gaussian, n, **EXACT[case])
    fit = sa.sample(extended, "nuts", iter_sampling=4000, seed=4, save_pseudo=True,
                    target_accept=0.9, **QUIET)  # fmt: skip
    squares = {
        f"{name} squared": lambda v, i=i, law=law: ((v["x"][..., i] - law[0]) / law[1]) ** 2
        for i, (name, law) in enumerate(LAW.items())
    }
    table = sa.weighted_summary(fit, squares)
    for name, (mean, sd) in LAW.items():
        for row, truth, unit in ((name, mean, sd), (f"{name} squared", 1.0, 2.0**0.5)):
            found = table.loc[row]
            assert abs(found["mean"] - truth) < 5 * found["mcse"]
            assert abs(found["draws_mean"] - truth) < 5 * found["draws_mcse"]
            assert found["mcse"] < 0.1 * unit  # the checks above had power


def test_prior_data_are_reached_through_the_program(gaussian):
    prior = sa.Target(GAUSSIAN, {"n": 0, "y": []}, **QUIET)
    extended = sa.Extended(gaussian, 2, prior_data={"n": 0, "y": []}, between=(0.2, 0.7))
    x, u = np.array([[0.3, -2.5], [3.0, -3.1]]), np.array([0.4, -1.0])
    expected = extended_formula.log_extended(
        x, u, lambda r: gaussian.evaluate(r)[0], lambda r: prior.evaluate(r)[0], "free", 0.2, 0.7
    )
    position = np.concatenate([x.ravel(), u])
    assert extended.value(position) == pytest.approx(expected, rel=1e-12)
    assert extended.evaluate(position)[0] == pytest.approx(expected, rel=1e-12)
    assert extended.description["prior_data_hash"]


# --- failures and starts -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rwm", "nuts"])
def test_walls_are_rejections_told_in_stan_words(name):
    code = "parameters { vector[2] x; } model { x ~ uniform(-1, 1); x ~ normal(0.5, 1); }"
    with pytest.warns(UserWarning, match="power 0.4 of its density"):
        extended = sa.Extended(sa.Target(code, **QUIET), 2, temperature="fixed", fixed_at=0.4)
    with pytest.warns(UserWarning) as said:  # noqa: PT030
        fit = sa.sample(extended, name, inits=0.5, iter_warmup=500, iter_sampling=2000, seed=2,
                        save_pseudo=True, **QUIET)  # fmt: skip
    words = " ".join(str(warning.message) for warning in said)
    assert "had no finite density and were rejections; Stan says: pseudo-sample" in words
    assert fit.attrs["n_failed"] > 0
    x = results.dataset(fit, "pseudo")["x"].values
    assert np.abs(x).max() <= 1.0
    assert np.ptp(x, axis=(0, 1)).min() > 1.5


def test_starts_are_those_of_the_program_block_by_block(target):
    extended, rngs = extend(target, 3), [np.random.default_rng(i) for i in range(2)]
    for position in initial_positions(extended, None, rngs):
        assert position.shape == (3 * (DIM + 1),)
        assert len(np.unique(position)) == position.size
        assert np.abs(position).max() < 2.0
    given = np.arange(2.0 * DIM).reshape(2, DIM) / 20
    for start, position in zip(given, initial_positions(extended, given, rngs), strict=True):
        np.testing.assert_array_equal(position[: 3 * DIM], np.tile(start, 3))
        assert len(np.unique(position[3 * DIM :])) == 3
    values = {"s": 2.0, "m": [[1.0, 2.0], [3.0, 4.0]], "p": [0.2, 0.3, 0.5]}
    position = initial_positions(extended, values, rngs)[0]
    np.testing.assert_allclose(position[: 3 * DIM], np.tile(target.unconstrain(values), 3))
    earlier = sa.sample(target, "rwm", chains=2, iter_warmup=10, iter_sampling=10, seed=1, **QUIET)
    blocks = initial_positions(extended, earlier, rngs)[1][: 3 * DIM].reshape(3, DIM)
    assert np.all(blocks == blocks[0])
    fixed = extend(target, 2, temperature="fixed")
    assert initial_positions(fixed, 0, rngs)[0].shape == (2 * DIM,)
