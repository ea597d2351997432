"""Medians and intervals over repeats: known answers, and the table as text, HTML and LaTeX."""

import re
from unittest import mock

import numpy as np
import pytest

from stanadapt.errors import codes_of
from stanadapt.studies.repeats.summary import CENTRAL, EXTREMES, describe, summarize
from stanadapt.studies.repeats.table import escape_latex, printed_summary, to_latex
from tests.helpers.made_up_repeats import row, table

NAN = float("nan")


def test_eleven_repeats_have_their_second_and_tenth_as_ends():
    values = [2.0**k for k in (3, 10, 0, 7, 5, 1, 9, 2, 8, 4, 6)]  # skewed, and in no order
    rows = table(*(row("a", i, v) for i, v in enumerate(values, 1)))
    line = summarize(rows, ["a"], 11).loc["a"]
    assert line["interval"] == CENTRAL
    assert (line["asked"], line["repeats"], line["failed"], line["fine"]) == (11, 11, 0, 11)
    for measure in ("ess_bulk_min", "ess_per_gradient", "r_hat_max", "wall_seconds"):
        assert line[[f"{measure}_low", measure, f"{measure}_high"]].tolist() == [2.0, 32.0, 512.0]


def test_quantiles_are_interpolated():
    rows = table(*(row("a", i, v) for i, v in enumerate([0.0, 1.0, 10.0, 20.0, 100.0, 200.0], 1)))
    line = summarize(rows, ["a"], 6).loc["a"]
    ends = line[["wall_seconds_low", "wall_seconds", "wall_seconds_high"]].astype(float)
    np.testing.assert_allclose(ends, [0.5, 15.0, 150.0])


@pytest.mark.parametrize(("count", "interval"), [(4, EXTREMES), (5, CENTRAL)])
def test_the_interval_of_fewer_than_five_repeats_is_the_range(count, interval):
    rows = table(*(row("a", i, float(v)) for i, v in enumerate([1, 2, 3, 50, 90][:count], 1)))
    line = summarize(rows, ["a"], count).loc["a"]
    assert line["interval"] == interval
    assert (line["seconds_low"] == 1.0) == (interval == EXTREMES)
    assert (line["seconds_high"] == 50.0) == (interval == EXTREMES)
    (message,) = describe(rows, summarize(rows, ["a"], count))
    assert message.code == "intervals"
    assert (CENTRAL in message) == (interval == CENTRAL)


def test_each_sampler_is_summarized_in_the_requested_order():
    rows = table(row("b", 1, 5.0), row("a", 1, 1.0), row("b", 2, 7.0), row("a", 2, 3.0))
    summary = summarize(rows, ["a", "b"], 2)
    assert summary["seconds"].to_dict() == {"a": 2.0, "b": 6.0}
    assert list(summary.index) == ["a", "b"]


def test_repeats_beyond_the_requested_number_do_not_count():
    rows = table(*(row("a", i, v) for i, v in enumerate([1.0, 3.0, 1000.0], 1)))
    line = summarize(rows, ["a"], 2).loc["a"]
    assert (line["repeats"], line["seconds"], line["seconds_high"]) == (2, 2.0, 3.0)


def test_failed_repeats_are_counted_and_not_measured():
    failed = row("a", 2, NAN, verdict="", failure="sampling: all chains stopped.")
    rows = table(row("a", 1, 1.0), failed, row("a", 3, 3.0, verdict="too short", reasons="Few."))
    summary = summarize(rows, ["a"], 3)
    line = summary.loc["a"]
    assert (line["asked"], line["repeats"], line["failed"], line["fine"]) == (3, 2, 1, 1)
    assert line["ess_bulk_min"] == 2.0
    _, failure, doubt = describe(rows, summary)
    assert codes_of([failure, doubt]) == ["failed_repeats", "doubtful_repeats"]
    for fact in ("a: ", "1 of 3", "sampling: all chains stopped."):
        assert fact in failure
    for fact in ("a: ", "1 of 2", "repeat 3", "too short. Few."):
        assert fact in doubt


def test_without_a_fit_there_are_no_numbers():
    failed = [row("a", i, NAN, verdict="", failure="sampling: no.") for i in (1, 2)]
    line = summarize(table(*failed), ["a"], 2).loc["a"]
    assert (line["repeats"], line["failed"], line["fine"]) == (0, 2, 0)
    assert np.isnan(line["ess_bulk_min"])


def test_missing_repeats_and_numbers_are_reported():
    rows = table(row("a", 1, 1.0), row("a", 2, 2.0, r_hat_max=NAN, ess_per_gradient=NAN))
    summary = summarize(rows, ["a", "b"], 3)
    assert summary.loc["a", "r_hat_max"] == 1.0
    assert summary.loc["b", "repeats"] == 0
    _, *messages = describe(rows, summary)
    assert codes_of(messages) == ["missing_repeats", "missing_measures", "missing_repeats"]
    facts = [("a: ", "1 of 3"), ("a: r_hat_max", "1"), ("b: ", "3 of 3")]
    for message, named in zip(messages, facts, strict=True):
        assert all(fact in message for fact in named)


def test_samplers_with_different_intervals_are_named():
    rows = [row("a", i, float(i)) for i in range(1, 6)]
    rows += [
        row("b", i, NAN if i > 1 else 1.0, failure="no." if i > 1 else "") for i in range(1, 6)
    ]
    found = table(*rows)
    first, second, *_ = describe(found, summarize(found, ["a", "b"], 5))
    assert codes_of([first, second]) == ["intervals", "intervals"]
    assert first.startswith("a: ")
    assert second.startswith("b: ")
    assert CENTRAL in first
    assert CENTRAL not in second


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
