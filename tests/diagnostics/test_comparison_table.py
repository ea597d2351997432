"""The printed comparison: columns at each width, and fits that are not exact, listed separately."""

import html
import io
import re

import numpy as np
import pandas as pd
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

LONG = "pseudo_extended"
TITLES = [
    "bulk ESS", "median", "tail ESS", "R-hat", "warm-up s", "sampling s", "compile s", "ESS/s",
    "gradients", "ESS/grad", "failed", "z mean", "z sd", "missed",
]  # fmt: skip


@pytest.fixture(scope="module")
def table():
    fits = {
        "whitened_hmc": made_up_fits.fit(1, gradients=123_456_789),
        LONG: made_up_fits.fit(2, seconds=1234.5),
        "nuts": made_up_fits.fit(3, **made_up_fits.NUTS),
    }
    return sa.compare(fits)


def printed(table, width):
    stream = io.StringIO()
    comparison_table.printed_table(table).show(
        Console(file=stream, width=width, force_terminal=True)
    )
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())


def lines_of_table(text, table):
    return text.splitlines()[: 1 + len(table)]


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_no_number_is_cut_at_any_width(table, width):
    lines = lines_of_table(printed(table, width), table)
    assert max(len(line.rstrip()) for line in lines) <= width
    assert "…" not in "".join(lines)
    whole = comparison_table.cells(table)
    head = lines[0]
    for title in ("bulk ESS", "R-hat", "ESS/s", "verdict"):
        assert title in head
    for i, name in enumerate(table.index):
        row = lines[1 + i]
        assert row.startswith(name)
        shown = [title for title in whole if title in head]
        for title in shown:
            assert whole[title][i] in row


def test_wider_consoles_show_more_columns_and_narrow_ones_name_the_others(table):
    heads = [printed(table, width).splitlines()[0].split() for width in (80, 120, 200)]
    assert len(heads[0]) < len(heads[1]) < len(heads[2])
    missing = next(x for x in printed(table, 80).splitlines() if x.startswith("no room for: "))
    assert "compile s" in missing
    assert "no room for" not in printed(table, 200)
    widest = printed(table, 200).splitlines()[0]
    assert [title for title in TITLES if title not in widest] == []


def test_each_fit_has_a_block_if_nothing_fits(table):
    text = printed(table, 30)
    lines = text.splitlines()
    starts = [lines.index(str(name)) for name in table.index]
    assert starts == sorted(starts)
    block = lines[starts[1] : starts[2]]
    assert block[1:] == [
        f"  {title:<10}  {column[1]}" for title, column in comparison_table.cells(table).items()
    ]


def test_names_are_text_and_columns_without_numbers_left_out():
    name = "[/red] [bold]x[/bold] \\[a]"
    table = sa.compare({name: made_up_fits.fit(1), "b": made_up_fits.frozen(2)})
    for width in (30, 160):
        assert name in printed(table, width)
    table = sa.compare({"a": made_up_fits.fit(1, n_gradients=0, n_density=7)})
    head = printed(table, 200).splitlines()[0]
    assert "z mean" not in head
    assert "ESS/grad" not in head


def test_a_notebook_shows_one_table():
    """As IPython does, which takes the HTML of the last value of a cell."""
    table = sa.compare({"a": made_up_fits.fit(1), "<b>": made_up_fits.diverging(2)})
    page = table._repr_html_()
    assert page.count("<table>") == 1
    assert page.count("<tr>") == 3
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    (reason,) = table.attrs["reasons"]["<b>"]
    assert html.escape(reason) in page


def test_nothing_is_printed_or_displayed(monkeypatch, capsys):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    table = sa.compare({"a": made_up_fits.fit(1)})
    repr(table)
    assert capsys.readouterr().out == ""


def test_the_text_of_a_table_is_as_wide_as_the_console(table, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert repr(table) == printed(table, 80).rstrip("\n")
    assert max(map(len, repr(table).splitlines())) <= 80


def test_an_incomplete_table_prints_as_an_ordinary_frame(table):
    changed = sa.compare({"a": made_up_fits.fit(1), "b": made_up_fits.fit(2)})
    del changed["verdict"]
    renamed = sa.compare({"a": made_up_fits.fit(1)})
    renamed.index = ["other"]
    for frame in (changed, renamed):
        assert repr(frame) == repr(pd.DataFrame(frame))
        assert frame._repr_html_() == pd.DataFrame(frame)._repr_html_()
    assert type(table[table["chains"] > 1]) is pd.DataFrame


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_number_of_draws_and_equal_cost_are_shown(width):
    fits = {LONG: made_up_fits.fit(1), "gad_mala": made_up_fits.fit(2, shape=(4, 20_000))}
    table = sa.compare(fits, budget="gradients")
    head, _, second, *_ = printed(table, width).splitlines()
    assert "draws" in head
    assert "equal cost" in head
    assert "4 x 20,000" in second


def test_three_or_more_reasons_point_to_all_of_them():
    bad = made_up_fits.with_large_steps(1)
    bad = made_up_fits.fit(
        1, posterior={n: bad["posterior"][n].values for n in "abc"},
        stats={**made_up_fits.statistics(acceptance=0.02),
               "diverging": np.ones(made_up_fits.SHAPE, bool)},
    )  # fmt: skip
    table = sa.compare({"bad": bad})
    reasons = table.attrs["reasons"]["bad"]
    assert len(reasons) > comparison_table.REASONS_SHOWN
    (remark,) = (r for r in comparison_table.remarks(table) if r.code == reasons[0].code)
    assert f"{len(reasons) - comparison_table.REASONS_SHOWN} more" in remark
    assert "diagnose" in remark
    assert reasons[-1] not in remark


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
def test_biases_are_measured_by_the_baseline_and_never_recommended(fits):
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
    compared = collect({name: [fit] for name, fit in fits.items()}, None, None)
    judged = assess(compared.runs, "biased")
    assert judged.reference.name != "biased"
    assert judged.objections["biased"] == "not exact"
    assert conclude(compared.runs, judged).winner != "biased"


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


def test_biases_are_unknown_without_a_baseline_and_never_fine(fits):
    table = sa.compare({"biased": fits["biased"]})
    assert np.isnan(table.loc["biased", "bias_mean"])
    assert "bias_unknown" in codes_of(comparison_table.remarks(table))
    biased = sa.compare({n: fits[n] for n in ("biased", "hmc")}, "biased")
    assert "bias_unknown" in codes_of(comparison_table.remarks(biased))
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
