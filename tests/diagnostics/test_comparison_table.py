"""The printed comparison: what is shown at which width, and that nothing is cut."""

import io
import re
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
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


class Notebook:
    """Stands for IPython in a notebook: counts cells, and keeps what they display."""

    def __init__(self, monkeypatch):
        self.execution_count, self.displayed = 1, []
        display = SimpleNamespace(display=lambda data, raw: self.displayed.append(data))
        shell = SimpleNamespace(get_ipython=lambda: self, display=display)
        monkeypatch.setitem(sys.modules, "IPython", shell)
        monkeypatch.setitem(sys.modules, "IPython.display", display)
        monkeypatch.setattr("rich.console._is_jupyter", lambda: True)

    def end_cell(self, value):
        value._ipython_display_()  # as IPython does with the value of a cell's last line
        self.execution_count += 1


def test_a_notebook_shows_the_table_once(monkeypatch, capsys):
    notebook = Notebook(monkeypatch)
    value = sa.compare({"a": made_up_fits.fit(1), "<b>": made_up_fits.diverging(2)})
    notebook.end_cell(value)
    (data,) = notebook.displayed
    html = data["text/html"]
    assert html.count("<table>") == 1
    assert html.count("<tr>") == 3
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    assert "diverged" in html
    assert "…" not in data["text/plain"]
    notebook.end_cell(value)  # asked for again, in a cell of its own
    assert notebook.displayed == [data, data]
    assert capsys.readouterr().out == ""


def test_a_notebook_shows_what_is_not_the_value_of_a_cell(monkeypatch):
    notebook = Notebook(monkeypatch)
    silent = sa.compare({"a": made_up_fits.fit(1)}, show=False)
    assert notebook.displayed == []
    notebook.end_cell(silent)
    sa.compare({"a": made_up_fits.fit(1)})
    assert len(notebook.displayed) == 2


def test_the_text_of_a_table_is_what_is_printed(table, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert repr(table) == printed(table, 80).rstrip("\n")
    assert max(map(len, repr(table).splitlines())) <= 80


def test_a_table_that_was_taken_apart_is_an_ordinary_frame(table):
    changed = sa.compare({"a": made_up_fits.fit(1), "b": made_up_fits.fit(2)}, show=False)
    del changed["verdict"]
    renamed = sa.compare({"a": made_up_fits.fit(1)}, show=False)
    renamed.index = ["other"]
    for frame in (changed, renamed):
        assert repr(frame) == repr(pd.DataFrame(frame))
        assert frame._repr_html_() == pd.DataFrame(frame)._repr_html_()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_number_of_draws_and_equal_cost_are_shown(width):
    fits = {LONG: made_up_fits.fit(1), "gad_mala": made_up_fits.fit(2, shape=(4, 20_000))}
    table = sa.compare(fits, show=False, budget="gradients")
    head, _, second, *_ = printed(table, width).splitlines()
    assert "draws" in head
    assert "equal cost" in head
    assert "4 x 20,000" in second


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
