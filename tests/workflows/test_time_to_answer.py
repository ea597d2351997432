"""The benchmark of times to an answer: what its clocks count, and its table."""

import numpy as np
import pandas as pd
import pytest

from workflows.benchmarks import time_to_answer


def test_checks_are_off_the_clock_and_short_runs_on_it():
    tried, seconds = [], [5.0]

    def prepare(program, data):
        return lambda seed, times: tried.append(times) or seconds.append(0.25)

    def usable(fit, program, data):
        seconds.append(100.0)
        return tried[-1] == 4

    found = time_to_answer.run_here(prepare, "", "", 1, 0.0, usable, lambda: sum(seconds))
    assert tried == [1, 2, 4]
    assert found["times"] == 4
    assert found["wall"] == 5.75  # three draws, none of the three checks
    assert np.isnan(time_to_answer.run_here(prepare, "", "", 1, 0.0, lambda *_: False)["wall"])


def test_means_are_geometric_and_a_program_without_an_answer_counts():
    rows = [
        {"program": program, "candidate": name, "caches": "warm", "processor": x, "wall": 2 * x}
        for program, name, x in (
            ("a", "embedded", 1.0), ("b", "embedded", 4.0), ("a", "nutpie", 9.0),
            ("b", "nutpie", np.nan),
        )
    ]  # fmt: skip
    table = time_to_answer.summary(pd.DataFrame(rows)).set_index("program")
    assert list(table.columns) == ["embedded, warm", "nutpie, warm"]
    assert table.loc["geometric mean"].tolist() == ["2", "nan"]
    assert float(table.iloc[-1, 0]) == pytest.approx(4.0)
