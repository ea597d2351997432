"""The winner, by how much, the objections to fits, and the numbers behind the pictures."""

import re

import numpy as np
import pytest
import xarray as xr

from stanadapt import results
from stanadapt.errors import codes_of
from stanadapt.studies.report import costs, straightening
from stanadapt.studies.report.assessment import assess, largest_z
from stanadapt.studies.report.canvas import report_style
from stanadapt.studies.report.conclusion import conclude, number
from stanadapt.studies.report.fits import collect, list_repeats, parameters
from stanadapt.studies.report.forest import most_different
from stanadapt.studies.report.problems import problems
from stanadapt.studies.report.running_error import running_error
from stanadapt.studies.report.table import TITLES, table_lines
from stanadapt.studies.report.traces import worst_parameters
from tests.helpers import made_up_fits as made_up


def draw_conclusion(**fits):
    runs, baseline, _ = collect(list_repeats(fits), None, None)
    assessment = assess(runs, baseline)
    return conclude(runs, assessment), assessment, runs


def codes(objections):
    return {name: objection and objection.code for name, objection in objections.items()}


def nuts(seed, **changes):
    return made_up.fit(seed, **made_up.NUTS | changes)


def test_the_faster_of_two_wins_unless_it_is_biased():
    """Equally many draws in a fifth of the time, and four times the gradients."""
    result, _, _ = draw_conclusion(
        nuts=nuts(1, seconds=10.0, gradients=10_000), ours=made_up.fit(2, gradients=40_000)
    )
    assert result.winner == "ours"
    assert result.choice.code == "fastest_sampler"
    ratio = float(re.search(r"([\d.]+) times", result.choice)[1])
    assert ratio == pytest.approx(5, rel=0.2)
    assert "gradient, nuts" in result.choice  # which is ahead by that measure
    # six standard errors are a bias, two are chance
    reference = made_up.fit(1, shape=(4, 2500))
    for shift, code in ((6.0, "disagreement"), (2.0, None)):
        posterior = made_up.draws(2)
        posterior["c"] = posterior["c"] + shift * posterior["c"].std() / np.sqrt(1000)
        fits = {"reference": reference, "x": made_up.fit(2, posterior=posterior)}
        _, assessment, runs = draw_conclusion(**fits)
        assert codes(assessment.objections)["x"] == code
        assert 4.0 < largest_z(runs[1], runs[0]) < 5.0


def test_close_costs_and_samplers_without_gradients():
    result, _, _ = draw_conclusion(a=made_up.fit(1, seconds=2.0), b=made_up.fit(2, seconds=2.05))
    assert result.choice.code == "close_samplers"
    assert result.choice.startswith("Use a or b:")
    walk = made_up.fit(1, seconds=0.1, gradients=0, n_density=5000)
    result, _, _ = draw_conclusion(walk=walk, other=made_up.fit(2))
    assert result.winner == "walk"
    assert result.choice.code == "fastest_sampler"
    assert "it uses no gradients" in result.choice
    slow = made_up.fit(1, seconds=9.0, gradients=0, n_density=5000)
    for fits, end in (
        ({"slow": slow, "other": made_up.fit(2)}, "the others use no gradients."),
        ({"slow": slow, "walk": walk}, "the next."),
        ({"other": made_up.fit(2)}, "per second."),
    ):
        assert draw_conclusion(**fits)[0].choice.endswith(end)


def test_the_reference_has_several_chains_however_many_draws_another_has():
    fits = {"two": made_up.fit(1, shape=(2, 1000)), "one": made_up.fit(2, shape=(1, 9000))}
    assessment = draw_conclusion(**fits)[1]
    assert (assessment.sound, assessment.reference.name) == (True, "two")


def test_repeats_decide_and_the_table_is_that_of_the_worst():
    a = [made_up.fit(i, seconds=2.0) for i in range(3)]
    b = [made_up.fit(i, seconds=2.8) for i in range(3, 6)]
    result, _, _ = draw_conclusion(a=a, b=b)
    assert (result.winner, result.choice.code) == ("a", "fastest_sampler")
    b[1] = made_up.fit(4, seconds=1.0)
    result, _, _ = draw_conclusion(a=a, b=b)
    assert result.choice.code == "close_samplers"
    fits = {"a": [made_up.fit(1), made_up.in_another_mode(2)], "b": made_up.fit(3)}
    _, assessment, runs = draw_conclusion(**fits)
    line = table_lines(runs, assessment)[0]
    assert (line.verdict, line.usable) == ("do not use", False)
    cells = dict(zip(TITLES, line.cells, strict=True))
    assert float(cells["R-hat"][0]) > 1.5
    assert " to " in cells["ESS/s"][1]


@pytest.mark.parametrize("problem", made_up.PLANTED)
def test_a_fit_with_a_problem_never_wins(problem):
    """However cheap it is."""
    bad = made_up.PLANTED[problem](1)
    bad.attrs["sampling_seconds"] = bad.attrs["warmup_seconds"] = [1e-6]
    result, _, _ = draw_conclusion(bad=bad, good=made_up.fit(2))
    assert result.winner == "good"
    assert result.trust.code == "some_fits_usable"
    assert "bad (" in result.trust


def test_a_fit_that_missed_a_mode_never_wins_and_is_no_reference():
    """It is the baseline and passes every other check."""
    rng = np.random.default_rng(1)

    def modes(seed, share):
        posterior = made_up.draws(seed)
        posterior["a"] = posterior["a"] + 12 * (rng.random(made_up.SHAPE) < share)
        return posterior

    fits = {
        "both": made_up.fit(1, posterior=modes(1, 0.4), seconds=50.0),
        "one": nuts(2, seconds=0.1),
    }
    result, assessment, _ = draw_conclusion(**fits)
    assert result.winner == "both"
    assert codes(assessment.objections) == {"both": None, "one": "missed_by_fit"}
    assert assessment.reference.name == "both"


def test_a_bad_baseline_is_no_reference():
    bad = made_up.in_another_mode(1)
    bad.attrs.update(engine="cmdstan 2.27.0", engine_independent=1)
    result, assessment, _ = draw_conclusion(nuts=bad, a=made_up.fit(2), b=made_up.fit(3))
    assert assessment.sound
    assert assessment.reference.name in ("a", "b")
    assert set(codes(assessment.objections).values()) == {"unusable_verdict", None}
    assert result.winner in ("a", "b")
    fits = {"x": made_up.frozen(1), "y": made_up.in_another_mode(2)}
    result, assessment, _ = draw_conclusion(**fits)
    assert not assessment.sound
    assert set(codes(assessment.objections).values()) == {"unusable_verdict"}
    assert result.winner is None
    assert (result.trust.code, result.choice.code) == ("no_fit_usable", "no_recommendation")


def test_a_fit_of_which_nothing_was_compared_is_not_said_to_agree():
    """It lacks the only parameter that is measured; the quantity in common differs by five sds."""
    x, q = np.random.default_rng(1).normal(size=(2, 4, 500))
    ours = made_up.fit(1, posterior={"x": x, "q": q}, parameters='["x"]')
    foreign = results.build({"posterior": {"q": 5.0 + q[::-1]}}, {})
    result, assessment, runs = draw_conclusion(ours=ours, foreign=foreign)
    assert codes(assessment.objections) == {"ours": None, "foreign": "not_compared"}
    assert result.trust.code == "some_fits_usable"
    assert "agree" not in result.trust
    assert "foreign (not comparable with ours)" in result.trust
    assert "not_compared" in codes_of(problems(runs[1], assessment))
    assert "not_compared" not in codes_of(problems(runs[0], assessment))


def test_fits_of_other_random_data_neither_disagree_nor_agree():
    """Six standard deviations lie between their posteriors, which is no fault."""
    posterior = made_up.draws(3)
    posterior["a"] = posterior["a"] + 6.0
    fits = {
        "a": made_up.fit(1, posterior=made_up.draws(1, (4, 500)), random_data="A"),
        "b": made_up.fit(2, random_data="A"),
        "c": made_up.fit(3, posterior=posterior, random_data="B"),
    }
    result, assessment, runs = draw_conclusion(**fits)
    assert set(codes(assessment.objections).values()) == {None}
    assert np.isnan(assessment.z["c"]).all()
    assert result.trust.code == "all_fits_usable"
    assert "b agrees with a" in result.trust
    assert result.trust.endswith("random data differ: c.")
    assert "disagreement" not in codes_of(problems(runs[2], assessment))
    result, _, _ = draw_conclusion(a=fits["a"], c=fits["c"])
    assert "agree" not in result.trust


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (15_164.0, "15,200"), (921.4, "921"), (45.6, "46"), (3.14159, "3.1"), (0.06161, "0.062"),
        (3.2e-7, "3.2e-07"), (0.0, "0"), (np.nan, "–"),
    ],
)  # fmt: skip
def test_numbers(value, shown):
    assert number(value) == shown


def runs_of(**fits):
    return collect(list_repeats(fits), None, None).runs


def test_error_of_running_means_by_hand():
    """Means after each draw, in sds of the reference, against gradients including warm-up."""
    x = np.array([[4.0, 0.0, 2.0, -2.0, 6.0, 2.0], [0.0, 2.0, 4.0, 0.0, 2.0, 4.0]])
    own = made_up.fit(1, posterior={"x": x}, parameters='["x"]', gradients=1200)
    reference = made_up.fit(2, posterior={"x": made_up.draws(2)["a"]}, parameters='["x"]')
    run, other = runs_of(own=own, reference=reference)
    spent, error = running_error(run, other)
    np.testing.assert_allclose(spent, 240 + 960 * np.arange(1, 7) / 6)
    means = np.cumsum(x.mean(axis=0)) / np.arange(1, 7)
    draws = made_up.draws(2)["a"]
    np.testing.assert_allclose(error, np.abs(means - draws.mean()) / draws.std(ddof=1))


def test_errors_and_differences_are_those_of_the_worst_parameter():
    posterior = made_up.draws(1)
    posterior["b"][..., 1] += 3e-3  # three of its standard deviations
    run, right = runs_of(off=made_up.fit(1, posterior=posterior), right=made_up.fit(2))
    assert running_error(run, right)[1][-1] == pytest.approx(3.0, abs=0.2)
    halves = running_error(right, right)[0]
    assert halves[-1] == pytest.approx(2000 + 8000 / 2)
    posterior = made_up.draws(1)
    posterior["b"][..., 1] *= 2
    posterior["a"] += 0.5
    off, right = runs_of(off=made_up.fit(1, posterior=posterior), right=made_up.fit(2))
    (like,) = runs_of(like=made_up.fit(3))
    assert set(most_different([off, like, right], right)[:2]) == {"a", "b[2]"}


def test_worst_parameters_are_those_that_disagree_before_those_that_are_slow():
    posterior = made_up.draws(1)
    posterior["c"][0] += 2.0
    slow = np.random.default_rng(3).normal(size=made_up.SHAPE)
    posterior["b"][..., 0] = np.repeat(slow[:, :50], 5, axis=1)
    posterior["extra"] = np.repeat(slow[:, :10], 25, axis=1)  # no parameter
    (run,) = runs_of(a=made_up.fit(1, posterior=posterior))
    assert worst_parameters(run)[0] == "c"
    assert "extra" not in parameters(run)
    assert set(worst_parameters(run)[:2]) <= {"c", "b[1]"}


def test_costs_are_in_order_and_those_of_refused_fits_hollow(monkeypatch):
    drawn, draw_lines = [], costs.draw_lines

    def keep(lines, *given):
        drawn.extend([lines, draw_lines(lines, *given)])
        return drawn[1]

    monkeypatch.setattr(costs, "draw_lines", keep)
    runs = runs_of(right=made_up.fit(1), off=made_up.fit(2))
    with report_style():
        costs.draw(runs, ["off"])
    lines, figure = drawn
    assert [(line.name, line.height, line.usable) for line in lines] == [
        ("right", 0.0, True), ("off", 1.0, False),
    ]  # fmt: skip
    assert figure.axes[0].yaxis_inverted()  # the first is on top
    for run, line in zip(runs, lines, strict=True):
        values = [run.ess_per_second, run.row["ess_per_gradient"]]
        assert [cost.median for cost in line.costs] == pytest.approx(values)
        assert np.concatenate(line.repeats).tolist() == values


def straightened(fit, **attributes):
    """Add a pair to a fit, with draws far beyond the others at one end."""
    values = np.append(np.random.default_rng(5).normal(size=399), 1e6)
    pair = xr.Dataset(dict.fromkeys(("driver", "coordinate", "residual"), ("point", values)))
    for name in pair:
        pair[name].attrs |= attributes
    groups = {name: results.dataset(fit, name) for name in results.group_names(fit)}
    return results.build({**groups, "straightened": pair}, {**fit.attrs, "straightening": "x: a"})


def test_straightening_is_drawn_for_the_fits_that_have_it():
    pair, other = straightened(made_up.fit(1), name="$v$"), straightened(made_up.fit(2))
    runs = runs_of(plain=made_up.fit(3), pair=pair, other=other)
    places = {"plain": 0, "pair": 1, "other": 2}
    with report_style():
        picture = straightening.draw(runs, places)
        assert straightening.draw([runs[0], runs[2]], places) is None
    assert picture.caption.startswith("pair: x: a.")
    assert picture.svg.count("pair: before") == 1
    assert "$v$" in picture.svg
    assert "other: before" not in picture.svg
