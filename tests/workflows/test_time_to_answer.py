"""The benchmark of times to an answer: what its clocks count, and its table."""

import time

import numpy as np
import pandas as pd
import pytest

from workflows.benchmarks import time_to_answer


def test_checks_are_off_the_clock_and_short_runs_on_it():
    tried = []

    def prepare(program, data):
        return lambda seed, times: tried.append(times) or time.sleep(0.02)

    def usable(fit, program, data):
        time.sleep(0.3)
        return tried[-1] == 4

    found = time_to_answer.run_here(prepare, "", "", 1, time.time() - 5.0, usable)
    assert tried == [1, 2, 4]
    assert found["times"] == 4
    assert 5.06 <= found["wall"] < 5.3  # three draws, none of the three checks
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
