"""The summary of repeats as text, HTML and LaTeX."""

import re
from unittest import mock

import pytest

from stanadapt.studies.repeats.summary import describe, summarize
from stanadapt.studies.repeats.table import escape_latex, printed_summary, to_latex
from tests.helpers.made_up_repeats import row, table

NAMES = ["pseudo_extended", "nuts"]


@pytest.fixture(scope="module")
def rows():
    numbers = [123_456.7, 23_456.7, 34_567.8, 45_678.9, 56_789.1]
    small = [1.5e-5, 2.5e-5, 3.5e-5, 4.5e-5, 5.5e-5]
    return table(*(
        row(name, i + 1, numbers[i], ess_per_gradient=small[i], r_hat_max=1.001 + i / 1000)
        for name in NAMES for i in range(5)
    ))  # fmt: skip


def printed(rows, width, names=NAMES):
    summary = summarize(rows, names, 5)
    with mock.patch.dict("os.environ", COLUMNS=str(width)):
        return printed_summary(summary, describe(rows, summary)).as_text()


@pytest.mark.parametrize("width", [80, 100, 160])
def test_no_number_is_cut_at_any_width(rows, width):
    text = printed(rows, width)
    lines = text.splitlines()[:5]
    assert max(len(line.rstrip()) for line in lines) <= width
    assert "…" not in text
    assert all(title in lines[0] for title in ("fine", "bulk ESS", "ESS/s"))
    assert "5 of 5" in lines[1]
    assert "45,679" in lines[1]
    titles = [title for title in ("bulk ESS", "ESS/s", "wall s") if title in lines[0]]
    assert lines[2].count("27,901–96,790") == len(titles)


def test_columns_without_room_are_named(rows):
    assert "no room for: draws, R-hat, wall s" in printed(rows, 80)
    assert "no room for" not in printed(rows, 160)


def test_each_sampler_has_a_block_if_no_column_fits(rows):
    lines = printed(rows, 38).splitlines()
    assert lines[lines.index("nuts") + 1] == "  fine      5 of 5"
    assert "  ESS/s     45,679 27,901–96,790" in lines


def test_numbers_that_do_not_vary_have_no_interval():
    constant = table(*(row("a", i, 12.0) for i in range(1, 6)))
    assert "–" not in printed(constant, 160, ["a"])


def test_numbers_have_three_digits():
    one = table(row("a", 1, 99.96, ess_per_gradient=0.12345, wall_seconds=14.0))
    text = printed(one, 160, ["a"])
    for number in (" 100 ", "0.123", "14.0"):
        assert number in text
    assert "100." not in text


def test_columns_without_numbers_are_left_out():
    nothing = table(row("a", 1, 1.0, ess_per_gradient=float("nan")))
    assert "ESS/grad" not in printed(nothing, 160, ["a"])


def test_a_sampler_that_failed_has_a_line(rows):
    failed = table(row("a", 1, 2.0), row("b", 1, float("nan"), failure="no."))
    assert re.search(r"^b +0 of 5 *$", printed(failed, 160, ["a", "b"]), re.M)


def test_html(rows):
    summary = summarize(rows, NAMES, 5)
    html = printed_summary(summary, describe(rows, summary)).as_html()
    for text in ("<td>pseudo_extended</td>", "45,679 27,901–96,790", "<th>ESS/s</th>"):
        assert text in html


def test_latex(rows):
    text = to_latex(summarize(rows, NAMES, 5), ["two\nlines"])
    lines = text.splitlines()
    assert lines[0] == "% two lines"
    assert lines[2:5] == [
        r"\begin{tabular}{lrrrrrrr}",
        r"\toprule",
        r"sampler & fine & draws & bulk ESS & ESS/s & ESS/grad & R-hat & wall s \\",
    ]
    row_of_nuts = next(line for line in lines if line.startswith("nuts &"))
    cells = [cell.strip() for cell in row_of_nuts.removesuffix(r"\\").split("&")]
    assert cells[:4] == ["nuts", "5 of 5", r"4 $\times$ 100", "45,679 (27,901--96,790)"]
    power = r"$3.50 \times 10^{-5}$ ($1.90 \times 10^{-5}$--$5.10 \times 10^{-5}$)"
    assert cells[5] == power
    assert cells[6] == "1.003 (1.001--1.005)"
    assert r"pseudo\_extended &" in text
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]


def test_special_characters_are_escaped():
    assert escape_latex("a_b&50%$#{x}~^\\") == (
        r"a\_b\&50\%\$\#\{x\}\textasciitilde{}\textasciicircum{}\textbackslash{}"
    )
