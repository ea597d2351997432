"""The winner, by how much, and which fits are held against it: without a page."""

import numpy as np
import pytest

from stanadapt.studies.report import summary_table
from stanadapt.studies.report.conclusion import conclude, number
from stanadapt.studies.report.fits import as_repeats, collect, largest_z, standing
from tests.helpers import made_up_fits as made_up


def concluded(**fits):
    compared = collect(as_repeats(fits), None, None)
    judged = standing(compared.runs, compared.baseline)
    return conclude(compared.runs, judged), judged, compared.runs


def nuts(seed, **changes):
    return made_up.fit(seed, **made_up.NUTS | changes)


def test_the_faster_of_two_wins_by_the_ratio_of_its_cost():
    """Equally many draws in a fifth of the time, and four times the gradients."""
    found, _, _ = concluded(
        nuts=nuts(1, seconds=10.0, gradients=10_000), ours=made_up.fit(2, gradients=40_000)
    )
    assert found.winner == "ours"
    times = float(found.choice.partition(", ")[2].partition(" times")[0])
    assert times == pytest.approx(5, rel=0.2)
    assert "; per gradient, nuts is ahead of it (" in found.choice


def test_close_costs_are_no_victory():
    found, _, _ = concluded(a=made_up.fit(1, seconds=2.0), b=made_up.fit(2, seconds=2.05))
    assert "too close to call (one run of each does not decide)" in found.choice


def test_repeats_decide_where_their_ranges_are_apart():
    a = [made_up.fit(i, seconds=2.0) for i in range(3)]
    b = [made_up.fit(i, seconds=2.8) for i in range(3, 6)]
    found, _, _ = concluded(a=a, b=b)
    assert found.choice.startswith("Use a: ")
    b[1] = made_up.fit(4, seconds=1.0)
    found, _, _ = concluded(a=a, b=b)
    assert "the ranges of their repeats overlap" in found.choice


def test_a_sampler_without_gradients():
    walk = made_up.fit(1, seconds=0.1, gradients=0, n_density=5000)
    found, _, _ = concluded(walk=walk, other=made_up.fit(2))
    assert found.winner == "walk"
    assert found.choice.endswith("; it uses no gradients.")


@pytest.mark.parametrize("problem", made_up.PLANTED)
def test_a_fit_with_a_problem_never_wins(problem):
    """However cheap it is."""
    bad = made_up.PLANTED[problem](1)
    bad.attrs["sampling_seconds"] = bad.attrs["warmup_seconds"] = [1e-6]
    found, _, _ = concluded(bad=bad, good=made_up.fit(2))
    assert found.winner == "good"
    assert "bad (" in found.trust


def test_a_fit_that_missed_a_mode_never_wins_and_is_no_reference():
    """Though it is the baseline, and passes every check of its own."""
    rng = np.random.default_rng(1)

    def modes(seed, share):
        posterior = made_up.draws(seed)
        posterior["a"] = posterior["a"] + 12 * (rng.random(made_up.SHAPE) < share)
        return posterior

    fits = {
        "both": made_up.fit(1, posterior=modes(1, 0.4), seconds=50.0),
        "one": nuts(2, seconds=0.1),
    }
    found, judged, _ = concluded(**fits)
    assert found.winner == "both"
    assert judged.objections == {"both": "", "one": "missed modes"}
    assert judged.reference.name == "both"


def test_a_baseline_with_a_problem_is_no_reference():
    bad = made_up.in_another_mode(1)
    bad.attrs.update(engine="cmdstan 2.27.0", engine_independent=1)
    found, judged, _ = concluded(nuts=bad, a=made_up.fit(2), b=made_up.fit(3))
    assert judged.sound
    assert judged.reference.name in ("a", "b")
    assert set(judged.objections.values()) == {"do not use", ""}
    assert found.winner in ("a", "b")


def test_nobody_is_held_against_a_bad_reference():
    fits = {"x": made_up.frozen(1), "y": made_up.in_another_mode(2)}
    found, judged, _ = concluded(**fits)
    assert not judged.sound
    assert set(judged.objections.values()) == {"do not use"}
    assert found.winner is None
    assert found.choice == "No sampler can be recommended until the problems below are solved."


def test_a_fit_beside_the_truth_disagrees():
    """By six of its standard errors, and by three, which is chance."""
    reference = made_up.fit(1, shape=(4, 2500))
    for shift, word in ((6.0, "disagrees with reference"), (2.0, "")):
        posterior = made_up.draws(2)
        posterior["c"] = posterior["c"] + shift * posterior["c"].std() / np.sqrt(1000)
        fits = {"reference": reference, "x": made_up.fit(2, posterior=posterior)}
        _, judged, runs = concluded(**fits)
        assert judged.objections["x"] == word
        assert 4.0 < largest_z(runs[1], runs[0]) < 5.0


def test_the_table_is_that_of_the_worst_repeat():
    fits = {"a": [made_up.fit(1), made_up.in_another_mode(2)], "b": made_up.fit(3)}
    _, judged, runs = concluded(**fits)
    line = summary_table.lines(runs, judged)[0]
    assert (line.verdict, line.usable) == ("do not use", False)
    cells = dict(zip(summary_table.TITLES, line.cells, strict=True))
    assert float(cells["R-hat"][0]) > 1.5
    assert " to " in cells["ESS/s"][1]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (15_164.0, "15,200"), (921.4, "921"), (45.6, "46"), (3.14159, "3.1"), (0.06161, "0.062"),
        (3.2e-7, "3.2e-07"), (0.0, "0"), (np.nan, "–"),
    ],
)  # fmt: skip
def test_numbers(value, shown):
    assert number(value) == shown
