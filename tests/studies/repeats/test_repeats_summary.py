"""Medians and intervals over repeats, from rows with known answers."""

import numpy as np
import pytest

from stanadapt.errors import codes_of
from stanadapt.studies.repeats.summary import CENTRAL, EXTREMES, describe, summarize
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
