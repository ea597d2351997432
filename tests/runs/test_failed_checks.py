"""Errors in what runs after the draws: none of these is lost, and the fit has not passed."""

import copy

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.verdict import judge
from stanadapt.errors import StanadaptError
from tests.helpers import made_up_fits
from tests.helpers.codes import warns
from tests.helpers.short_runs import NORMAL, WALL

LENGTHS = {"chains": 2, "iter_warmup": 300, "iter_sampling": 400, "seed": 1}
FAULT = "IndexError: index 7 is out of bounds"


def broken(target, name, error=None):
    """Return the target with a method that works no longer."""

    def raise_error(*_):
        raise error or IndexError("index 7 is out of bounds")

    other = copy.copy(target)
    setattr(other, name, raise_error)
    return other


def require_suspect(fit, *names):
    """Each check that failed is a reason, also after the fit was written and read."""
    assert fit.attrs["verdict"] == "suspect"
    codes, texts = (results.from_json(fit, f"verdict_{x}", []) for x in ("codes", "reasons"))
    failed = [text for text, code in zip(texts, codes, strict=True) if code == "check_failed"]
    assert len(failed) == len(names)
    for name, text in zip(names, failed, strict=True):
        assert f"{name} failed ({FAULT})" in text
    again = sa.diagnose(fit)
    assert (again.verdict, again.codes.count("check_failed")) == ("suspect", len(names))


@pytest.mark.parametrize(
    ("sampler", "names"), [("auto", ["mode_missed"]), ("nuts", ["tail_missing", "mode_missed"])]
)
def test_a_check_with_the_density_costs_no_draws(sampler, names, tmp_path):
    target = sa.Target(NORMAL)
    whole = sa.sample(target, sampler, **LENGTHS)
    assert whole.attrs["verdict"] == "fine"
    other = broken(target, "unconstrain_rows")
    with warns("check_failed", FAULT):
        fit = sa.sample(other, sampler, run=tmp_path / "run", **LENGTHS)
    require_suspect(fit, *names)
    with warns("check_failed", FAULT):
        kept = sa.resume(tmp_path / "run", target=other)
    for drawn in (fit, kept):
        np.testing.assert_array_equal(drawn["posterior"]["x"].values, whole["posterior"]["x"])
    diagnosis = sa.diagnose(whole, other)
    assert (diagnosis.verdict, diagnosis.codes) == ("suspect", ["check_failed"] * 2)
    assert (diagnosis.table.index == ["x"]).all()
    assert sa.diagnose(fit, target).verdict == "fine"  # checked again


def test_an_error_with_a_code_costs_no_draws_either():
    error = StanadaptError("wrong_density", "too far")
    with warns("check_failed", "mode_missed failed", "too far"):
        fit = sa.sample(broken(sa.Target(NORMAL), "unconstrain_rows", error), **LENGTHS)
    assert fit["posterior"]["x"].shape == (2, 400)
    assert fit.attrs["verdict"] == "suspect"


def test_the_explanation_of_failed_evaluations_costs_no_draws(tmp_path):
    options = {**LENGTHS, "inits": {"x": 1.0}, "initial_scale": 1.2, "standardize": False}
    with warns("check_failed", FAULT):
        fit = sa.sample(broken(sa.Target(WALL), "fault"), "gad_mala", **options)
    assert fit["posterior"]["x"].shape == (2, 400)
    assert fit.attrs["check_failed"] in sa.diagnose(fit).reasons
    require_suspect(fit, "failed_evaluations")
    written = sa.load(sa.save(fit, tmp_path / "csv", format="cmdstan"))
    assert fit.attrs["check_failed"] in sa.diagnose(written).reasons


@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
def test_stans_nuts_loses_no_draws():
    target = broken(sa.Target(WALL), "unconstrain_rows")
    with warns("check_failed", FAULT):
        fit = sa.stan_nuts(target, backend="stanli", **LENGTHS)
    assert fit["posterior"]["x"].shape == (2, 400)
    require_suspect(fit, "hard_edges", "tail_missing", "mode_missed")


def test_the_other_rows_of_a_verdict_are_evaluated():
    fit = made_up_fits.diverging(1)
    fit.attrs["share_at_edges"] = "many"
    diagnosis = sa.diagnose(fit)
    assert diagnosis.verdict == "suspect"
    assert "divergences failed (ValueError: " in diagnosis.reasons[0]
    fit = made_up_fits.in_another_mode(1)
    fit.attrs["share_without_gradient"] = "many"
    diagnosis = sa.diagnose(fit)
    assert diagnosis.verdict == "do not use"
    assert {"check_failed", "high_r_hat"} <= {*diagnosis.codes}
    fit = made_up_fits.fit(1)
    fit.attrs["sampler"] = np.ones(2)  # before the first row
    with warns("check_failed", "verdict failed (ValueError: "):
        assert judge(fit).attrs["verdict"] == "suspect"
