"""sample(): shapes, bits and attributes of a result."""

import json
import warnings

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.runs.run import Run
from stanadapt.runs.sample import parameter_draws
from tests.helpers.cores import use_cores
from tests.helpers.driven_runs import setup_of
from tests.helpers.short_runs import LIVELY, NORMAL, SHORT, assert_same_draws, draw, values
from tests.helpers.stan_target import shared_target

# T, G and C are functions of the parameters in which rows and columns cannot be confused
SHAPES = """
data { int<lower=0> N; vector[N] y; }
parameters { matrix[2, 3] M; real<lower=0> s; array[2] vector[3] a; }
transformed parameters { matrix[3, 2] T; T = 2 * M'; }
model {
  to_vector(M) ~ normal(0, 1);
  s ~ exponential(1);
  for (i in 1:2) a[i] ~ normal(10 * i, 1);
}
generated quantities {
  vector[N] log_lik;
  array[2, 3] real G;
  array[2] matrix[3, 2] C;
  real r = normal_rng(0, 1);
  for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | 0, s);
  for (i in 1:2) for (j in 1:3) G[i, j] = a[i][j] + 100 * M[i, j];
  for (k in 1:2) for (i in 1:3) for (j in 1:2) C[k, i, j] = 100 * k + 10 * i + j + M[j, i];
}
"""
Y = np.array([0.5, -1.0, 2.0])
shapes = shared_target(SHAPES, {"N": 3, "y": Y})


@pytest.fixture(scope="module")
def full(shapes):
    """One run of which everything is kept."""
    return draw(shapes, save_warmup=True, save="unconstrained", thin=3)


@pytest.fixture(scope="module")
def plain(shapes):
    return draw(shapes)


def test_groups(plain, full):
    usual = {"posterior", "sample_stats", "log_likelihood", "constant_data"}
    assert set(results.group_names(plain)) == usual
    extra = {"warmup_posterior", "warmup_sample_stats", "unconstrained_posterior"}
    assert set(results.group_names(full)) == usual | extra
    alone = draw(sa.Target(NORMAL))
    assert set(results.group_names(alone)) == {"posterior", "sample_stats"}
    s, found = values(plain, "s"), values(plain, "log_lik", "log_likelihood")
    assert "log_lik" not in results.dataset(plain, "posterior")
    assert found.shape == (2, 40, 3)
    expected = -0.5 * np.log(2 * np.pi) - np.log(s[..., None]) - 0.5 * (Y / s[..., None]) ** 2
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_shapes_and_elements_are_those_of_the_program(plain):
    posterior = results.dataset(plain, "posterior")
    shapes = {name: posterior[name].shape[2:] for name in posterior}
    assert shapes == {
        "M": (2, 3), "s": (), "a": (2, 3), "T": (3, 2), "G": (2, 3), "C": (2, 3, 2), "r": (),
    }  # fmt: skip
    assert all(posterior[name].dims[:2] == ("chain", "draw") for name in posterior)
    assert {posterior[name].shape[:2] for name in posterior} == {(2, 40)}
    assert posterior["T"].dims[2:] == ("T_dim_0", "T_dim_1")
    # stan's columns are column-major; a reshape in C order would mix rows and columns
    m, a = values(plain, "M"), values(plain, "a")
    assert abs(np.corrcoef(m[..., 0, 1].ravel(), m[..., 1, 0].ravel())[0, 1]) < 0.99
    np.testing.assert_allclose(values(plain, "T"), 2 * m.swapaxes(-1, -2), rtol=1e-14)
    np.testing.assert_allclose(values(plain, "G"), a + 100 * m, rtol=1e-14)
    assert (values(plain, "s") > 0).all()
    k, i, j = np.ix_((1, 2), (1, 2, 3), (1, 2))
    expected = (100 * k + 10 * i + j) + m.swapaxes(-1, -2)[:, :, None]
    np.testing.assert_allclose(values(plain, "C"), expected, rtol=1e-14)


def test_unconstrained_draws_have_the_density_and_the_values_of_the_posterior(shapes, full):
    positions = values(full, "position", "unconstrained_posterior")
    lp = values(full, "lp", "sample_stats")
    for chain, row in ((0, 0), (0, 13), (1, 7)):
        value, _, _ = shapes.evaluate(positions[chain, row])
        assert lp[chain, row] == pytest.approx(value, rel=1e-12)
    assert positions.shape == (2, 14, shapes.dim)
    for chain, row in ((0, 0), (1, 5), (1, 13)):
        constrained = shapes.constrain(positions[chain, row])
        assert set(constrained) == {"M", "s", "a"}
        for name, value in constrained.items():
            np.testing.assert_array_equal(value, values(full, name)[chain, row])


def test_results_record_types_and_how_they_were_made(plain, shapes):
    stats, posterior = (results.dataset(plain, name) for name in ("sample_stats", "posterior"))
    kinds = {name: stats[name].dtype.kind for name in stats}
    expected = {"lp": "f", "acceptance_rate": "f", "accepted": "b", "n_gradients": "i"}
    assert kinds.items() >= expected.items()
    assert {variable.dtype.kind for variable in posterior.values()} == {"f"}
    assert not [name for name in kinds if str(name).endswith("_")]
    assert not kinds.keys() & {"energy", "tree_depth", "diverging"}  # gad_mala has none of them
    attrs = plain.attrs
    expected = {
        "inference_library": "stanadapt", "sampler": "gad_mala", "seed": 11, "iter_warmup": 30,
        "iter_sampling": 40, "thin": 1, "model": shapes.name, "program_hash": shapes.program.hash,
        "backend": shapes.backend, "backend_version": shapes.backend_version, "interrupted": 0,
        "n_stopped": 0, "n_failed_quantities": 0,
    }  # fmt: skip
    assert {name: attrs[name] for name in expected} == expected
    settings = json.loads(attrs["settings"])
    assert settings["initial_scale"] == 1.5
    assert settings["diagonal"] is False
    assert len(attrs["data_hash"]) == 16
    assert {"numpy", "numba", "stanli", "arviz"} <= set(json.loads(attrs["versions"]))
    assert attrs["chains_kept"] == "[1, 2]"
    assert "created_at" in attrs


def test_evaluations_are_counted(shapes):
    fit = draw(shapes, "rwm")
    stats = results.dataset(fit, "sample_stats")
    assert "n_density" in stats
    assert "n_gradients" not in stats
    assert results.attribute(fit, "n_gradients") == 0
    assert results.attribute(fit, "n_density") >= 2 * 70
    # gad_mala: one gradient per iteration and one at the start; kept rows hold all of them
    fit = draw(shapes, save_warmup=True, thin=1)
    kept = values(fit, "n_gradients", "sample_stats").sum()
    warmup = values(fit, "n_gradients", "warmup_sample_stats").sum()
    assert fit.attrs["n_gradients"] == kept + warmup
    assert fit.attrs["n_gradients_warmup"] == warmup
    assert warmup >= 2 * 30
    assert fit.attrs["n_density"] == fit.attrs["n_failed"] == 0


def test_draws_depend_on_the_recorded_seed_alone(shapes, four, plain):
    one, other = (draw(shapes, seed=None) for _ in range(2))
    assert one.attrs["seed"] != other.attrs["seed"]
    assert_same_draws(draw(shapes, seed=int(one.attrs["seed"])), one)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", sa.ConvergenceWarning)  # two draws are too few
        fit = draw(shapes, chains=4, iter_sampling=2)
    assert values(fit, "s").shape == (4, 2)
    np.testing.assert_array_equal(values(four, "M")[:2], values(plain, "M"))
    other = draw(shapes, seed=12)
    for name in ("M", "s", "r"):
        assert not (values(other, name) == values(plain, name)).any()
    settings = sa.samplers.gad.gad_mala.Settings(**LIVELY)
    assert_same_draws(sa.sample(shapes, settings, **SHORT), plain)


@pytest.fixture(scope="module")
def four(shapes):
    return draw(shapes, chains=4, parallel_chains=1)


@pytest.mark.parametrize("parallel", [2, 4, None])
def test_draws_do_not_depend_on_parallel_chains(shapes, four, parallel):
    assert_same_draws(draw(shapes, chains=4, parallel_chains=parallel), four)


@pytest.mark.parametrize("inits", [None, 0])
def test_chains_differ_even_from_the_same_start(shapes, inits):
    fit = draw(shapes, inits=inits, chains=3, **LIVELY)
    m, r = values(fit, "M")[:, -1, 0, 0], values(fit, "r")[:, 0]
    assert len(set(m)) == len(set(r)) == 3


@pytest.mark.parametrize("thin", [3, 7, 20])
def test_thinned_draws_are_every_thin_th(shapes, plain, thin):
    fit = draw(shapes, thin=thin)
    for name in ("M", "s", "a", "T"):
        np.testing.assert_array_equal(values(fit, name), values(plain, name)[:, ::thin])
    lp = values(fit, "lp", "sample_stats")
    np.testing.assert_array_equal(lp, values(plain, "lp", "sample_stats")[:, ::thin])
    assert fit.attrs["n_gradients"] == plain.attrs["n_gradients"]
    assert fit.attrs["thin"] == thin


def test_studies_get_the_draws_of_the_fit_unless_interrupted(shapes, plain):
    drawn = parameter_draws(shapes, "gad_mala", **SHORT, **LIVELY, show_progress=False)
    of_fit = results.columns(plain, wanted=results.parameters(plain))
    assert set(drawn) == set(of_fit)
    for name, x in of_fit.items():
        np.testing.assert_array_equal(drawn[name], x)

    def press(chains, *rest, **options):
        for chain in chains:
            chain.advance(40)
        raise KeyboardInterrupt

    run = Run.begin(setup_of(shapes, "gad_mala", **SHORT)._replace(run_chains=press))
    with pytest.raises(KeyboardInterrupt):
        run.parameter_draws()


def test_save_warmup_adds_and_changes_nothing(full, plain):
    # r = normal_rng() may differ: Stan's generator is called for each kept draw, in order
    for name in ("M", "s", "a"):
        np.testing.assert_array_equal(values(full, name), values(plain, name)[:, ::3])
    warm = results.dataset(full, "warmup_posterior")
    assert warm["M"].shape == (2, 10, 2, 3)
    assert np.isfinite(warm["M"].values).all()
    assert set(results.dataset(full, "warmup_sample_stats")) == set(
        results.dataset(full, "sample_stats")
    )


def test_quantities_of_warmup_and_no_warmup_at_all(full, shapes):
    phases = [values(full, "r", group) for group in ("posterior", "warmup_posterior")]
    assert not np.intersect1d(*phases).size
    fit = draw(shapes, iter_warmup=0, save_warmup=True)
    assert "warmup_posterior" not in results.group_names(fit)
    assert values(fit, "s").shape == (2, 40)


def test_draws_do_not_depend_on_whether_chains_share_a_model(monkeypatch):
    """Chains share one model, and one copy of the data, where these are large."""
    use_cores(monkeypatch, 3)
    own, shared = sa.Target(NORMAL), sa.Target(NORMAL)
    assert len({own.model_of(chain).model for chain in range(3)}) == 3
    monkeypatch.setattr("stanadapt.targets.bound_program.SHARED_ABOVE", 0)
    assert len({shared.model_of(chain).model for chain in range(3)}) == 1
    assert_same_draws(draw(own, chains=3), draw(shared, chains=3))
