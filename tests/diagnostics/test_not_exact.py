"""Fits that are not exact: listed separately, judged, and compared with regard to bias."""

import io

import numpy as np
import pytest
from rich.console import Console

import stanadapt as sa
from stanadapt.diagnostics import comparison_table
from stanadapt.diagnostics.verdict import verdict
from stanadapt.errors import codes_of
from stanadapt.samplers import find, registered
from stanadapt.studies.report.assessment import assess
from stanadapt.studies.report.conclusion import conclude
from stanadapt.studies.report.fits import collect, representatives
from stanadapt.studies.report.table import table_lines
from tests.helpers import made_up_fits

SHAPE = (4, 4000)


def biased(seed=2, shift=0.3, wider=1.2):
    posterior = made_up_fits.draws(seed, SHAPE)
    posterior["a"] = shift + posterior["a"]
    posterior["b"] = posterior["b"] * np.array([1.0, wider])
    return made_up_fits.fit(seed, posterior=posterior, sampler="biased", exact=False)


@pytest.fixture(scope="module")
def fits():
    exact = made_up_fits.fit(1, shape=SHAPE)
    nuts = made_up_fits.fit(3, shape=SHAPE, **made_up_fits.NUTS)
    return {"biased": biased(), "hmc": exact, "nuts": nuts}


@pytest.mark.thorough
def test_the_bias_is_measured_in_units_of_the_baseline(fits):
    """For independent draws, the error of a mean is 1 / sqrt(n) sd, of an sd 1 / sqrt(2 n)."""
    table, n = sa.compare(fits), SHAPE[0] * SHAPE[1]
    row = table.loc["biased"]
    assert not row["exact"]
    assert row["bias_mean"] == pytest.approx(0.3, abs=5 * np.sqrt(2 / n))
    assert row["bias_sd"] == pytest.approx(0.2, abs=5 * 1.2 * np.sqrt(1 / n))
    assert row["z_mean"] > 20
    assert row[["ess_per_second", "ess_per_gradient"]].isna().all()
    assert row["r_hat_max"] < 1.01  # although there is a bias
    others = table.loc[["hmc", "nuts"]]
    assert others["exact"].all()
    assert others[["bias_mean", "bias_sd"]].isna().all(axis=None)
    assert others["ess_per_second"].notna().all()


def test_they_are_listed_separately(fits):
    table = sa.compare(fits, budget="seconds")
    stream = io.StringIO()
    comparison_table.printed_table(table).show(Console(file=stream, width=160))
    text = stream.getvalue()
    first, second = text.split("not exact  ", 1)
    assert [line.split()[0] for line in first.splitlines()] == ["fit", "hmc", "nuts"]
    assert "bias" not in first
    head, row = second.splitlines()[:2]
    assert row.split()[0] == "biased"
    assert "ESS" not in head
    assert "0.3" in row
    assert codes_of(comparison_table.remarks(table))[-1] == "not_exact"
    assert np.isnan(table.loc["biased", "ess_at_budget"])
    assert table._repr_html_().count("<table>") == 2


def test_without_a_baseline_the_bias_is_unknown(fits):
    table = sa.compare({"biased": fits["biased"]})
    assert np.isnan(table.loc["biased", "bias_mean"])
    assert "bias_unknown" in codes_of(comparison_table.remarks(table))
    biased = sa.compare({n: fits[n] for n in ("biased", "hmc")}, "biased")
    assert "bias_unknown" in codes_of(comparison_table.remarks(biased))


def test_the_verdict_is_not_exact_although_chains_have_converged(fits):
    judgment = verdict(fits["biased"])
    assert judgment.verdict == "not exact"
    assert codes_of(judgment.reasons) == ["not_exact"]
    assert "stanadapt.compare" in judgment.reasons[0]
    assert verdict(fits["hmc"]).reasons == []


@pytest.mark.parametrize("name", [n for n, s in registered().items() if s.exact is not True])
def test_no_fit_of_a_sampler_that_is_not_exact_is_fine(fits, name):
    """The draws are those of an exact sampler, but the sampler declares that it is not."""
    settings = {"exact": False} if "exact" in registered()[name].settings._fields else {}
    attributes = {"sampler": name, "exact": find(name, **settings)[0].exact}
    fit = made_up_fits.fit(1, shape=SHAPE, **attributes)
    assert verdict(fit).verdict == "not exact"


@pytest.mark.thorough
@pytest.mark.parametrize(("verdicts", "shown"), [
    (["not exact", "fine"], "not exact"), (["too short", "not exact"], "too short"),
    (["not exact", "do not use"], "do not use"),
])  # fmt: skip
def test_a_report_shows_the_worst_verdict_of_repeats(fits, verdicts, shown):
    compared = collect({"biased": [fits["biased"]] * 2, "nuts": [fits["nuts"]]}, None, None)
    biased = [run for run in compared.runs if run.name == "biased"]
    for run, value in zip(biased, verdicts, strict=True):
        run.row["verdict"] = value
    rows = table_lines(compared.runs, assess(compared.runs, "nuts"))
    assert (rows[0].verdict, rows[0].usable) == (shown, False)
    assert representatives(compared.runs)[0].row["verdict"] == shown


@pytest.mark.thorough
def test_a_report_neither_measures_by_them_nor_recommends_them(fits):
    compared = collect({name: [fit] for name, fit in fits.items()}, None, None)
    judged = assess(compared.runs, "biased")
    assert judged.reference.name != "biased"
    assert judged.objections["biased"] == "not exact"
    assert conclude(compared.runs, judged).winner != "biased"
