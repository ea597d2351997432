"""The page of repeats: the recommendation on each target, and the problems."""

import numpy as np
import pytest

from stanadapt.studies.repeats.page import repeats_page
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
