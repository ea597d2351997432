"""The page of repeats: which sampler on each target, and what is not fine."""

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


def made(targets=tuple(SPEEDS)):
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
    return page_of(*made())


def test_each_target_has_its_answer(page):
    words = page.words("conclusion")
    clear, close, doubtful, hopeless = (words.index(f"{name}.") for name in SPEEDS)
    assert "Use b: 21 effective draws" in words[clear:close]
    assert "1.9 times as many as a, the next" in words[clear:close]
    assert "Use b or a: " in words[close:doubtful]
    assert "too close to call (the ranges of their repeats overlap)" in words[close:doubtful]
    # b is faster, and one of its repeats is not fine
    assert "Use a, the only one left" in words[doubtful:hopeless]
    assert words[hopeless:] == (
        "hopeless. No sampler can be recommended: of none are all repeats fine."
    )


def test_problems_are_named_by_target_and_sampler(page):
    words = page.words("problems")
    assert (
        "doubtful: b 1 of 3 fits are not fine. The first, repeat 2: do not use. It <froze>."
        in words
    )
    assert words.count("3 of 3 fits are not fine") == 2
    assert "clear" not in words


def test_the_table_is_grouped_by_target(page):
    words = page.words("table")
    places = [words.index(f" {name} a ") for name in SPEEDS]
    assert places == sorted(places)
    assert "2 of 3" in words
    assert "Medians, with the smallest and the largest of the repeats." in words
    assert "one: made_up (program p, data d)" in page.words("origin")
    assert "stanadapt compare <x>" in page.words("origin")


def test_one_target_is_one_sentence():
    rows, summary = made(("clear",))
    page = page_of(rows, summary, command="")
    assert page.words("conclusion").startswith("Use b: 21 effective draws")
    assert "made_up: repeated comparison" in page.words()
    assert "None was found: all repeats are fine." in page.words("problems")
    assert "Written from Python" in page.words("origin")


def test_repeats_without_seconds_are_not_ranked():
    rows, _ = made(("clear",))
    rows["ess_per_second"] = np.nan
    page = page_of(rows, summarize(rows, ["a", "b"], 3, ("clear",)))
    assert "Which is fastest cannot be said" in page.words("conclusion")
