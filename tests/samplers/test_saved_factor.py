"""The learned factor of a proposal in the result: `save_factor=True`."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.targets.stan import bundled
from tests.helpers.stan_target import shared_target

GROUP = "proposal_factor"
SHORT = {"chains": 2, "iter_warmup": 400, "iter_sampling": 50, "seed": 3}
target = shared_target(*bundled.find("gaussian", "two_dim"))


def factors(fit):
    return results.dataset(fit, GROUP)["factor"]


@pytest.mark.parametrize("sampler", ["gad_mala", "gad_rwm", "gad_hmc", "am"])
def test_only_on_request_with_labels(target, sampler):
    plain = sa.sample(target, sampler, standardize=False, **SHORT)
    assert GROUP not in results.group_names(plain)
    fit = sa.sample(target, sampler, standardize=False, save_factor=True, **SHORT)
    factor = factors(fit)
    assert factor.dims == ("chain", "coordinate", "column")
    assert factor.shape == (2, 2, 2)
    assert list(factor["coordinate"].values) == ["x[1]", "x[2]"]
    assert (factor.values[:, 0, 1] == 0).all()
    assert (factor.values[:, [0, 1], [0, 1]] > 0).all()
    np.testing.assert_array_equal(plain["posterior"]["x"], fit["posterior"]["x"])


def test_diagonals_are_vectors_and_low_rank_is_a_matrix(target):
    chosen = {"standardize": False, "save_factor": True, "diagonal": True, **SHORT}
    assert factors(sa.sample(target, "gad_mala", **chosen)).dims == ("chain", "coordinate")
    assert factors(sa.sample(target, "am", **chosen)).shape == (2, 2)
    neal = sa.Target(*bundled.find("neal", None))
    fit = sa.sample(neal, "gad_mala", rank=2, standardize=False, save_factor=True, **SHORT)
    matrix = factors(fit).values[0]
    assert matrix.shape == (100, 100)
    # U begins at zero: what is not on the diagonal was learned, in two directions
    off_diagonal = matrix - np.diag(matrix.diagonal())
    assert np.abs(off_diagonal).max() > 0


def test_standardized_runs_report_it_in_the_units_of_the_program(target):
    """After a pre-run L is near a multiple of the identity there, of the covariance here."""
    fit = sa.sample(target, "gad_mala", save_factor=True, **SHORT)
    assert fit.attrs["standardized"]
    for factor in factors(fit).values:
        steps = factor @ factor.T
        correlation = steps[0, 1] / np.sqrt(steps[0, 0] * steps[1, 1])
        # the pre-run of some hundred draws knows it to about (1 - r^2) / sqrt(100)
        assert correlation == pytest.approx(0.99, abs=0.01)


def test_it_is_kept_in_a_file_and_by_a_resumed_run(target, tmp_path):
    fit = sa.sample(
        target, "gad_rwm", standardize=False, save_factor=True, run=tmp_path / "run", **SHORT
    )
    sa.save(fit, tmp_path / "fit.nc")
    np.testing.assert_array_equal(factors(sa.load(tmp_path / "fit.nc")), factors(fit))
    again = sa.resume(tmp_path / "run")
    np.testing.assert_array_equal(factors(again), factors(fit))


def test_proposals_have_the_covariance_of_the_factor(target):
    """Without adaptation, moves of a random walk that accepts nearly all have covariance L L^T."""
    fit = sa.sample(
        target, "am", standardize=False, save_factor=True, initial_scale=0.02, tune_scale=False,
        chains=1, iter_warmup=0, iter_sampling=4000, seed=1,
    )  # fmt: skip
    factor = factors(fit).values[0]
    moves = np.diff(fit["posterior"]["x"].values[0], axis=0)
    moved = moves[np.any(moves != 0, axis=1)]
    assert len(moved) > 3000
    scale = factor[0, 0]
    assert scale == pytest.approx(0.02 / np.sqrt(2) * 2.38 / np.sqrt(2))
    # sd of n normal numbers: relative error 1 / sqrt(2 n); a step of relative size h = 0.17 in the
    # narrow direction, sd 0.07, is rejected at times, which shrinks moves by about h^2
    assert moved[:, 0].std() == pytest.approx(scale, rel=5 / np.sqrt(2 * len(moved)) + 0.2)
