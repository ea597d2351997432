"""The picture of repeats: places of dots and intervals, and hollow dots."""

import numpy as np
import pytest

from stanadapt.studies.repeats.picture import as_pdf, draw_repeats
from stanadapt.studies.repeats.summary import summarize
from tests.helpers.made_up_repeats import row, table


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
