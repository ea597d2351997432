"""The benchmarks of growing dimension and of times to an answer: data, columns, tables."""

import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from workflows.benchmarks import scaling, time_to_answer

SHORT = {"iter_warmup": 50, "iter_sampling": 50}


def made_up(size, sampler, seed, seconds, ess, usable=True):
    return {
        "model": "level", "size": size, "sampler": sampler, "seed": seed, "seconds": seconds,
        "bulk": 9 * ess, "squares": ess, "tail": 2 * ess, "gradients": 100 * size, "usable": usable,
    }  # fmt: skip


RUNS = pd.DataFrame([
    # geometric means of milliseconds per effective draw: ours 2, the peers' 4 and 8
    made_up(10, "auto", 1, 1.0, 1000), made_up(10, "auto", 2, 4.0, 1000, False),
    made_up(10, "nutpie", 1, 8.0, 1000), made_up(10, "nutpie", 2, 2.0, 1000),
    made_up(10, "nutpie_low_rank", 1, 8.0, 1000), made_up(10, "nutpie_low_rank", 2, 8.0, 1000),
    made_up(1000, "auto", 1, 20.0, 500), made_up(1000, "auto", 2, 20.0, 500),
])  # fmt: skip


def test_ratios_and_exponents_of_a_table():
    first, last = scaling.summary(RUNS, "auto").to_dict("records")
    assert first["ms per draw"] == pytest.approx(2)
    assert (first["peer"], first["the peer's"]) == ("nutpie", pytest.approx(4))
    assert first["ratio"] == pytest.approx(0.5)
    assert first["usable"] == "1/2"
    assert (last["peer"], last["ms per draw"]) == ("", pytest.approx(40))
    assert np.isnan(last["ratio"])
    (row,) = scaling.exponents(scaling.summary(RUNS, "auto")).to_dict("records")
    assert (row["from"], row["to"]) == (10, 1000)
    assert row["exponent"] == pytest.approx(np.log10(20 / 2) / 2)


def test_a_series_is_stationary():
    rng = np.random.default_rng(1)
    drawn = np.array([scaling.walk(rng, 30, 0.9) for _ in range(4000)])
    # the relative standard error of a variance is 0.022
    assert drawn.var(axis=0)[[0, 1, 29]] == pytest.approx(1 / (1 - 0.9**2), rel=0.1)
    assert np.mean(drawn[:, 9] * drawn[:, 10]) == pytest.approx(0.9 / (1 - 0.9**2), rel=0.1)


@pytest.mark.parametrize("model", scaling.MODELS)
def test_every_model_takes_its_data_and_its_columns_exist(model):
    program, simulate = scaling.MODELS[model]
    data = {"N": 40, **simulate(np.random.default_rng(1), 40)}
    target = sa.Target(program, data, backend="stanli", show_progress=False)
    names = scaling.spaced(target)
    assert len(names) == scaling.COLUMNS
    # the innovations of volatility, not the states that are made of them
    assert not [name for name in names if name.startswith("h[")]
    position = np.full(target.dim, 0.1)
    assert np.isfinite(target.evaluate(position)[0])


@pytest.mark.slow
def test_a_model_is_measured():
    (row,) = scaling.rows_of("independent", 30, ["nuts"], 1, SHORT)
    assert row["failure"] == ""
    assert (row["size"], row["sampler"]) == (30, "nuts")
    assert 0 < row["squares"] < 2000


def test_clocks_and_means_of_answers():
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
