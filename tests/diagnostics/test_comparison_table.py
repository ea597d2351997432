"""The printed comparison: what is shown at which width, and that nothing is cut."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

import stanadapt as sa
from stanadapt.diagnostics import comparison_table
from tests.helpers import made_up_fits

LONG = "pseudo_extended"


@pytest.fixture(scope="module")
def table():
    fits = {
        "whitened_hmc": made_up_fits.fit(1, gradients=123_456_789),
        LONG: made_up_fits.fit(2, seconds=1234.5),
        "nuts": made_up_fits.fit(3, **made_up_fits.NUTS),
    }
    return sa.compare(fits, show=False)


def printed(table, width):
    stream = io.StringIO()
    comparison_table.show_table(table, Console(file=stream, width=width, force_terminal=True))
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
    for title in ("min ESS", "R-hat", "ESS/s", "verdict"):
        assert title in head
    for i, name in enumerate(table.index):
        row = lines[1 + i]
        assert row.startswith(name)
        shown = [title for title in whole if title in head]
        for title in shown:
            assert whole[title][i] in row


def test_wider_consoles_show_more_columns_and_narrow_ones_say_what_is_missing(table):
    heads = [printed(table, width).splitlines()[0].split() for width in (80, 120, 200)]
    assert len(heads[0]) < len(heads[1]) < len(heads[2])
    missing = next(x for x in printed(table, 80).splitlines() if x.startswith("no room for: "))
    assert "compile s" in missing
    assert "no room for" not in printed(table, 200)


def test_where_nothing_fits_each_fit_has_a_block(table):
    text = printed(table, 30)
    lines = text.splitlines()
    starts = [lines.index(str(name)) for name in table.index]
    assert starts == sorted(starts)
    block = lines[starts[1] : starts[2]]
    assert block[1:] == [
        f"  {title:<10}  {column[1]}" for title, column in comparison_table.cells(table).items()
    ]


def test_markup_in_names_is_text():
    name = "[/red] [bold]x[/bold] \\[a]"
    table = sa.compare({name: made_up_fits.fit(1), "b": made_up_fits.frozen(2)}, show=False)
    for width in (30, 160):
        assert name in printed(table, width)


def test_columns_without_a_number_are_left_out():
    table = sa.compare({"a": made_up_fits.fit(1, n_gradients=0, n_density=7)}, show=False)
    head = printed(table, 200).splitlines()[0]
    assert "z mean" not in head
    assert "ESS/grad" not in head


def test_a_notebook_shows_the_table_once(table, monkeypatch, capsys):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    shown = sa.compare({"a": made_up_fits.fit(1), "<b>": made_up_fits.diverging(2)})
    assert capsys.readouterr().out == ""
    html = shown._repr_html_()
    assert html.count("<table>") == 1
    assert html.count("<tr>") == 3
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    assert "diverged" in html


def test_what_is_taken_from_a_table_is_an_ordinary_frame(table):
    assert type(table[table["chains"] > 1]).__name__ == "DataFrame"


def test_three_or_more_reasons_point_to_all_of_them():
    bad = made_up_fits.with_large_steps(1)
    bad = made_up_fits.fit(
        1, posterior={n: bad["posterior"][n].values for n in "abc"},
        stats={**made_up_fits.statistics(acceptance=0.02),
               "diverging": np.ones(made_up_fits.SHAPE, bool)},
    )  # fmt: skip
    table = sa.compare({"bad": bad}, show=False)
    reasons = table.attrs["reasons"]["bad"]
    assert len(reasons) > comparison_table.REASONS_SHOWN
    remark = next(r for r in comparison_table.remarks(table) if r.startswith("bad: "))
    assert remark.endswith(f"{len(reasons) - comparison_table.REASONS_SHOWN} more: see diagnose.")
