"""Medians and intervals over repeats as table and as page, with its picture."""

import re
from unittest import mock

import numpy as np
import pytest

from stanadapt.errors import codes_of
from stanadapt.studies.repeats.page import repeats_page
from stanadapt.studies.repeats.picture import as_pdf, draw_repeats
from stanadapt.studies.repeats.summary import CENTRAL, EXTREMES, describe, summarize
from stanadapt.studies.repeats.table import escape_latex, printed_summary, to_latex
from tests.helpers.html_page import Page
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


def test_quantiles_are_interpolated_and_samplers_in_order():
    rows = table(*(row("a", i, v) for i, v in enumerate([0.0, 1.0, 10.0, 20.0, 100.0, 200.0], 1)))
    line = summarize(rows, ["a"], 6).loc["a"]
    ends = line[["wall_seconds_low", "wall_seconds", "wall_seconds_high"]].astype(float)
    np.testing.assert_allclose(ends, [0.5, 15.0, 150.0])
    rows = table(row("b", 1, 5.0), row("a", 1, 1.0), row("b", 2, 7.0), row("a", 2, 3.0))
    summary = summarize(rows, ["a", "b"], 2)
    assert summary["seconds"].to_dict() == {"a": 2.0, "b": 6.0}
    assert list(summary.index) == ["a", "b"]
    rows = table(*(row("a", i, v) for i, v in enumerate([1.0, 3.0, 1000.0], 1)))
    line = summarize(rows, ["a"], 2).loc["a"]
    assert (line["repeats"], line["seconds"], line["seconds_high"]) == (2, 2.0, 3.0)
    failed = [row("a", i, NAN, verdict="", failure="sampling: no.") for i in (1, 2)]
    line = summarize(table(*failed), ["a"], 2).loc["a"]
    assert (line["repeats"], line["failed"], line["fine"]) == (0, 2, 0)
    assert np.isnan(line["ess_bulk_min"])


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


def test_missing_repeats_and_other_intervals_are_reported():
    rows = table(row("a", 1, 1.0), row("a", 2, 2.0, r_hat_max=NAN, ess_per_gradient=NAN))
    summary = summarize(rows, ["a", "b"], 3)
    assert summary.loc["a", "r_hat_max"] == 1.0
    assert summary.loc["b", "repeats"] == 0
    _, *messages = describe(rows, summary)
    assert codes_of(messages) == ["missing_repeats", "missing_measures", "missing_repeats"]
    facts = [("a: ", "1 of 3"), ("a: r_hat_max", "1"), ("b: ", "3 of 3")]
    for message, named in zip(messages, facts, strict=True):
        assert all(fact in message for fact in named)
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


def test_columns_rows_and_numbers_that_are_printed(rows):
    assert "no room for: draws, R-hat, wall s" in printed(rows, 80)
    assert "no room for" not in printed(rows, 160)
    lines = printed(rows, 38).splitlines()
    assert lines[lines.index("nuts") + 1] == "  fine      5 of 5"
    assert "  ESS/s     45,679 27,901–96,790" in lines
    failed = table(row("a", 1, 2.0), row("b", 1, float("nan"), failure="no."))
    assert re.search(r"^b +0 of 5 *$", printed(failed, 160, ["a", "b"]), re.M)
    constant = table(*(row("a", i, 12.0) for i in range(1, 6)))
    assert "–" not in printed(constant, 160, ["a"])
    one = table(row("a", 1, 99.96, ess_per_gradient=0.12345, wall_seconds=14.0))
    text = printed(one, 160, ["a"])
    for number in (" 100 ", "0.123", "14.0"):
        assert number in text
    assert "100." not in text
    nothing = table(row("a", 1, 1.0, ess_per_gradient=float("nan")))
    assert "ESS/grad" not in printed(nothing, 160, ["a"])


def test_html_and_latex_escape_and_print_the_same(rows):
    summary = summarize(rows, NAMES, 5)
    html = printed_summary(summary, describe(rows, summary)).as_html()
    for text in ("<td>pseudo_extended</td>", "45,679 27,901–96,790", "<th>ESS/s</th>"):
        assert text in html
    assert escape_latex("a_b&50%$#{x}~^\\") == (
        r"a\_b\&50\%\$\#\{x\}\textasciitilde{}\textasciicircum{}\textbackslash{}"
    )


def test_latex(rows):
    text = to_latex(summarize(rows, NAMES, 5), ["two\nlines"])
    lines = text.splitlines()
    assert lines[0] == "% two lines"
    assert lines[2:5] == [
        r"\begin{tabular}{lrrrrrrr}",
        r"\toprule",
        r"sampler & fine & draws & bulk ESS & ESS/s & ESS/grad & R-hat & wall s \\",
    ]
    assert r"\addlinespace" not in lines  # which is between programs
    row_of_nuts = next(line for line in lines if line.startswith("nuts &"))
    cells = [cell.strip() for cell in row_of_nuts.removesuffix(r"\\").split("&")]
    assert cells[:4] == ["nuts", "5 of 5", r"4 $\times$ 100", "45,679 (27,901--96,790)"]
    power = r"$3.50 \times 10^{-5}$ ($1.90 \times 10^{-5}$--$5.10 \times 10^{-5}$)"
    assert cells[5] == power
    assert cells[6] == "1.003 (1.001--1.005)"
    assert r"pseudo\_extended &" in text
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]


ORIGIN = {
    "settings": {"seed": 1}, "samplers": {}, "versions": {"stanadapt": "0"},
    "targets": {"one": {"model": "made_up"}},
}  # fmt: skip
# ESS per second over three repeats
SPEEDS = {
    "clear": {"a": (10.0, 11.0, 12.0), "b": (20.0, 21.0, 22.0)},
    "close": {"a": (10.0, 11.0, 20.0), "b": (15.0, 16.0, 17.0)},
    "doubtful": {"a": (10.0, 11.0, 12.0), "b": (90.0, 91.0, 92.0)},
    "hopeless": {"a": (1.0, 2.0, 3.0), "b": (1.0, 2.0, 3.0)},
}


def make(targets=tuple(SPEEDS)):
    rows, names = [], []
    for target in targets:
        for sampler, speeds in SPEEDS[target].items():
            for i, speed in enumerate(speeds, 1):
                bad = target == "hopeless" or (target, sampler, i) == ("doubtful", "b", 2)
                changes = {"verdict": "do not use", "reasons": "It <froze>."} if bad else {}
                rows.append(row(sampler, i, ess_per_second=speed, ess_per_gradient=0.1, **changes))
                names.append(target)
    found = table(*rows).assign(target=names)
    return found, summarize(found, ["a", "b"], 3, targets)


def page_of(rows, summary, command="stanadapt compare <x>"):
    return Page(repeats_page(rows, summary, ["one: made_up (program p, data d)"], command, ORIGIN))


@pytest.fixture(scope="module")
def page():
    return page_of(*make())


def test_each_target_has_its_answer(page):
    answers = page.messages("conclusion")
    assert [code for code, _ in answers] == [
        "fastest_sampler", "close_samplers", "fastest_sampler", "no_recommendation",
    ]  # fmt: skip
    clear, close, doubtful, _ = (text for _, text in answers)
    assert "Use b: 21 " in clear
    assert "1.9 times as many as a" in clear
    assert "Use b or a: " in close
    assert "Use a" in doubtful  # b is faster, and one of its repeats is not fine
    words = page.words("conclusion")
    places = [words.index(f"{name}.") for name in SPEEDS]
    assert places == sorted(places)


def test_problems_are_named_and_the_table_grouped_by_target(page):
    codes = page.codes("problems")
    assert codes == ["doubtful_repeats"] * 3
    ((_, text),) = page.messages("problems", "doubtful: b")
    assert "1 of 3" in text
    assert "repeat 2" in text
    assert "do not use. It <froze>." in text
    assert not page.messages("problems", "clear")
    words = page.words("table")
    places = [words.index(f" {name} a ") for name in SPEEDS]
    assert places == sorted(places)
    assert "2 of 3" in words
    assert page.codes("table") == ["intervals"]
    assert "one: made_up (program p, data d)" in page.words("origin")
    assert page.words("command") == "stanadapt compare <x>"


def test_one_target_has_one_answer():
    rows, summary = make(("clear",))
    page = page_of(rows, summary, command="")
    assert page.codes("conclusion") == ["fastest_sampler"]
    assert page.words("conclusion").startswith("Use b: 21 ")
    assert "made_up: " in page.words()
    assert "no-problems" in page.ids
    assert "command" not in page.ids
    rows, _ = make(("clear",))
    rows["ess_per_second"] = np.nan
    page = page_of(rows, summarize(rows, ["a", "b"], 3, ("clear",)))
    assert page.codes("conclusion") == ["unknown_speed"]


def rows_of(targets, samplers, values):
    numbers = [
        {**row(sampler, i + 1, scale * value), "target": target, "ess_per_second": np.nan}
        for scale, target in enumerate(targets, 1)
        for sampler in samplers
        for i, value in enumerate(values)
    ]
    rows = table(*numbers)
    return rows.assign(target=[one["target"] for one in numbers])


def drawn(rows, samplers, targets, repeats=3):
    summary = summarize(rows, samplers, repeats, targets)
    return draw_repeats(rows, summary), summary


def medians(axis):
    return [line for line in axis.lines if line.get_markersize() > 6.0]


def titles(axis):
    """Return the heights of targets, whose names are bold."""
    return {t.get_text(): t.get_position()[1] for t in axis.texts if t.get_weight() == "bold"}


def test_medians_intervals_and_repeats_are_at_their_numbers():
    rows = rows_of(["one", "two"], ["a", "b"], [0.1, 0.2, 0.8])
    figure, summary = drawn(rows, ["a", "b"], ["one", "two"])
    (axis,) = figure.axes  # no seconds: one panel
    assert axis.get_title(loc="left") + axis.get_title() == "ESS per gradient"
    assert [float(line.get_xdata()[0]) for line in medians(axis)] == [0.2, 0.2, 0.4, 0.4]
    lengths = [list(line.get_xdata()) for line in axis.lines if len(line.get_xdata()) == 2]
    assert lengths == [[0.1, 0.8]] * 2 + [[0.2, 1.6]] * 2
    faint = [sorted(line.get_xdata()) for line in axis.lines if len(line.get_xdata()) == 3]
    assert faint[0] == [0.1, 0.2, 0.8]
    assert [text.get_text() for text in axis.get_yticklabels()] == ["a", "b", "a", "b"]
    assert list(axis.get_yticks()) == [1.0, 2.0, 4.0, 5.0]
    # each target has the line above its samplers
    assert titles(axis) == {"one": 0.0, "two": 3.0}
    numbers = [t.get_text() for t in axis.texts if t.get_weight() != "bold"]
    assert numbers == ["0.2", "0.2", "0.4", "0.4"]
    colors = [line.get_color() for line in medians(axis)]
    assert colors[0] == colors[2] != colors[1] == colors[3]
    assert list(summary.index.names) == ["target", "sampler"]


def test_names_medians_and_files_of_a_picture():
    targets = [f"eight_schools_centered eight_schools {i}" for i in (1, 2)]
    figure, _ = drawn(rows_of(targets, ["a"], [0.1, 0.2, 0.8]), ["a"], targets)
    assert list(titles(figure.axes[0])) == targets
    rows = rows_of(["one"], ["a", "b"], [0.1, 0.2, 0.8])
    rows.loc[(rows["sampler"] == "b") & (rows["repeat"] == 2), "verdict"] = "too short"
    figure, _ = drawn(rows, ["a", "b"], ["one"])
    faces = [line.get_markerfacecolor() for line in medians(figure.axes[0])]
    assert faces[0] != "none"
    assert faces[1] == "none"
    rows = rows_of(["one"], ["a"], [0.1, 0.2, 0.8])
    files = [as_pdf(drawn(rows, ["a"], ["one"])[0]) for _ in range(2)]
    assert files[0] == files[1]
    assert files[0].startswith(b"%PDF")


@pytest.mark.parametrize("values", [[np.nan] * 3, [0.0] * 3])
def test_samplers_without_a_number_are_left_empty(values):
    figure, _ = drawn(rows_of(["one"], ["a"], values), ["a"], ["one"])
    assert medians(figure.axes[0]) == []
