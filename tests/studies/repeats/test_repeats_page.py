"""The page of repeats, and its picture: places of dots and intervals, and hollow dots."""

import numpy as np
import pytest

from stanadapt.studies.repeats.page import repeats_page
from stanadapt.studies.repeats.picture import as_pdf, draw_repeats
from stanadapt.studies.repeats.summary import summarize
from tests.helpers.html_page import Page
from tests.helpers.made_up_repeats import row, table

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


def test_problems_are_named_by_target_and_sampler(page):
    codes = page.codes("problems")
    assert codes == ["doubtful_repeats"] * 3
    ((_, text),) = page.messages("problems", "doubtful: b")
    assert "1 of 3" in text
    assert "repeat 2" in text
    assert "do not use. It <froze>." in text
    assert not page.messages("problems", "clear")


def test_the_table_is_grouped_by_target(page):
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


def test_repeats_without_seconds_are_not_ranked():
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


def test_long_names_of_targets_stay_distinct():
    targets = [f"eight_schools_centered eight_schools {i}" for i in (1, 2)]
    figure, _ = drawn(rows_of(targets, ["a"], [0.1, 0.2, 0.8]), ["a"], targets)
    assert list(titles(figure.axes[0])) == targets


def test_a_median_is_hollow_if_some_repeats_are_not_fine():
    rows = rows_of(["one"], ["a", "b"], [0.1, 0.2, 0.8])
    rows.loc[(rows["sampler"] == "b") & (rows["repeat"] == 2), "verdict"] = "too short"
    figure, _ = drawn(rows, ["a", "b"], ["one"])
    faces = [line.get_markerfacecolor() for line in medians(figure.axes[0])]
    assert faces[0] != "none"
    assert faces[1] == "none"


@pytest.mark.parametrize("values", [[np.nan] * 3, [0.0] * 3])
def test_samplers_without_a_number_are_left_empty(values):
    figure, _ = drawn(rows_of(["one"], ["a"], values), ["a"], ["one"])
    assert medians(figure.axes[0]) == []


def test_the_same_repeats_give_the_same_file():
    rows = rows_of(["one"], ["a"], [0.1, 0.2, 0.8])
    files = [as_pdf(drawn(rows, ["a"], ["one"])[0]) for _ in range(2)]
    assert files[0] == files[1]
    assert files[0].startswith(b"%PDF")
