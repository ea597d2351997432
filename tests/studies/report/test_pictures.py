"""The numbers behind the pictures."""

import numpy as np
import pytest
import xarray as xr

from stanadapt import results
from stanadapt.studies.report import costs, straightening
from stanadapt.studies.report.canvas import report_style
from stanadapt.studies.report.fits import collect, list_repeats, parameters
from stanadapt.studies.report.forest import most_different
from stanadapt.studies.report.running_error import running_error
from stanadapt.studies.report.traces import worst_parameters
from tests.helpers import made_up_fits as made_up


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


def test_the_error_is_that_of_the_worst_parameter_in_its_sds():
    posterior = made_up.draws(1)
    posterior["b"][..., 1] += 3e-3  # three of its standard deviations
    run, right = runs_of(off=made_up.fit(1, posterior=posterior), right=made_up.fit(2))
    assert running_error(run, right)[1][-1] == pytest.approx(3.0, abs=0.2)
    halves = running_error(right, right)[0]
    assert halves[-1] == pytest.approx(2000 + 8000 / 2)


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


def test_most_different_parameters():
    posterior = made_up.draws(1)
    posterior["b"][..., 1] *= 2
    posterior["a"] += 0.5
    off, right = runs_of(off=made_up.fit(1, posterior=posterior), right=made_up.fit(2))
    (like,) = runs_of(like=made_up.fit(3))
    assert set(most_different([off, like, right], right)[:2]) == {"a", "b[2]"}


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
