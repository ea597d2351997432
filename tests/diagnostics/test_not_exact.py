"""Fits that are not exact: apart from the others, judged, and measured for their bias."""

import io

import numpy as np
import pytest
from rich.console import Console

import stanadapt as sa
from stanadapt.diagnostics import comparison_table
from stanadapt.diagnostics.verdict import verdict
from stanadapt.engine.breaches import breaches
from stanadapt.engine.checks import INVARIANCE, checks_of
from stanadapt.samplers import find, registered
from stanadapt.studies.report.conclusion import conclude
from stanadapt.studies.report.fits import assess, collect, representatives
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


def test_the_bias_is_measured_in_units_of_the_baseline(fits):
    """Draws are independent: the error of a mean is 1 / sqrt(n) sd, of an sd 1 / sqrt(2 n)."""
    table, n = sa.compare(fits, show=False), SHAPE[0] * SHAPE[1]
    row = table.loc["biased"]
    assert not row["exact"]
    assert row["bias_mean"] == pytest.approx(0.3, abs=5 * np.sqrt(2 / n))
    assert row["bias_sd"] == pytest.approx(0.2, abs=5 * 1.2 * np.sqrt(1 / n))
    assert row["z_mean"] > 20
    assert row[["ess_per_second", "ess_per_gradient"]].isna().all()
    assert row["r_hat_max"] < 1.01  # which does not see it
    others = table.loc[["hmc", "nuts"]]
    assert others["exact"].all()
    assert others[["bias_mean", "bias_sd"]].isna().all(axis=None)
    assert others["ess_per_second"].notna().all()


def test_they_stand_in_a_part_of_their_own(fits):
    table = sa.compare(fits, show=False, budget="seconds")
    stream = io.StringIO()
    comparison_table.show_table(table, Console(file=stream, width=160))
    text = stream.getvalue()
    first, second = text.split("not exact  ", 1)
    assert [line.split()[0] for line in first.splitlines()] == ["fit", "hmc", "nuts"]
    assert "bias" not in first
    head, row = second.splitlines()[:2]
    assert row.split()[0] == "biased"
    assert "ESS" not in head
    assert "0.3" in row
    assert "in its standard deviations" in second
    assert "R-hat and effective sample sizes do not see" in second
    assert np.isnan(table.loc["biased", "ess_at_budget"])
    assert table._repr_html_().count("<table>") == 2


def test_without_a_baseline_the_bias_is_unknown(fits):
    table = sa.compare({"biased": fits["biased"]}, show=False)
    assert np.isnan(table.loc["biased", "bias_mean"])
    assert "name one as baseline" in repr(table)
    own = sa.compare({n: fits[n] for n in ("biased", "hmc")}, "biased", show=False)
    assert "biased, the baseline, is not exact" in repr(own)


def test_the_verdict_says_what_convergence_does_not_show(fits):
    found = verdict(fits["biased"])
    assert found.verdict == "not exact"
    assert "Compare its means and standard deviations" in found.sentences[-1]
    assert not verdict(fits["hmc"]).sentences


@pytest.mark.parametrize("name", [n for n, s in registered().items() if s.exact is not True])
def test_no_fit_of_a_sampler_that_is_not_exact_is_fine(fits, name):
    """Draws as good as those of an exact one, by a sampler that says of itself what it is."""
    chosen = {"exact": False} if "exact" in registered()[name].setting_types else {}
    attributes = {"sampler": name, "exact": find(name, **chosen)[0].exact}
    fit = made_up_fits.fit(1, shape=SHAPE, **attributes)
    assert verdict(fit).verdict == "not exact"


@pytest.mark.parametrize(
    ("verdicts", "shown"),
    [
        (["not exact", "fine"], "not exact"),
        (["too short", "not exact"], "too short"),
        (["not exact", "do not use"], "do not use"),
    ],
)
def test_a_report_shows_the_worst_verdict_of_repeats(fits, verdicts, shown):
    compared = collect({"biased": [fits["biased"]] * 2, "nuts": [fits["nuts"]]}, None, None)
    own = [run for run in compared.runs if run.name == "biased"]
    for run, given in zip(own, verdicts, strict=True):
        run.row["verdict"] = given
    found = table_lines(compared.runs, assess(compared.runs, "nuts"))
    assert (found[0].verdict, found[0].usable) == (shown, False)
    assert representatives(compared.runs)[0].row["verdict"] == shown


def test_a_report_neither_measures_by_them_nor_recommends_them(fits):
    compared = collect({name: [fit] for name, fit in fits.items()}, None, None)
    judged = assess(compared.runs, "biased")
    assert judged.reference.name != "biased"
    assert judged.objections["biased"] == "not exact"
    assert conclude(compared.runs, judged).winner != "biased"


def test_all_but_invariance_is_asked_of_them():
    sampler, _ = find("mala")
    assert INVARIANCE in checks_of(sampler)
    relaxed = checks_of(sampler._replace(exact=False))
    assert set(checks_of(sampler)) - set(relaxed) == {INVARIANCE}


def test_exactness_must_be_true_false_or_a_function():
    sampler, _ = find("mala")
    (sentence,) = breaches(sampler._replace(exact="no"), {})
    assert "exact must be True, False or a function" in sentence
