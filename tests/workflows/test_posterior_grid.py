"""The published grid: its totals, its gates, and a run on a made-up posteriordb."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from stanadapt import results
from tests.helpers.tiny_posteriordb import NAME, tiny
from workflows.benchmarks import posterior_grid

GOOD = {"r_hat": 1.01, "bulk": 400.0, "tail": 400.0}


def test_the_published_cells_add_up_to_the_published_totals():
    assert len(posterior_grid.PUBLISHED) == 17
    totals = [sum(passed) for passed in zip(*posterior_grid.PUBLISHED.values(), strict=True)]
    assert totals == [42, 36, 28]


def test_a_fit_on_the_edge_of_every_gate_passes():
    assert posterior_grid.gates(GOOD, 0) == []


@pytest.mark.parametrize(("change", "diverged", "missed"), [
    ({}, 1, "1 divergences"), ({"r_hat": 1.011}, 0, "R-hat 1.011"),
    ({"r_hat": float("nan")}, 0, "R-hat nan"), ({"bulk": 399.0}, 0, "bulk 399"),
    ({"tail": 399.0}, 0, "tail 399"),
])  # fmt: skip
def test_each_gate_alone_stops_a_fit(change, diverged, missed):
    assert posterior_grid.gates({**GOOD, **change}, diverged) == [missed]


def test_a_variable_without_draws_is_missed():
    draws = np.random.default_rng(1).standard_normal((4, 1000))
    stats = {"diverging": np.zeros((4, 1000), bool)}
    fit = results.build({"posterior": {"mu": draws}, "sample_stats": stats}, {})
    target = SimpleNamespace(name="made up")
    for variables, missed in ((["mu"], ""), (["mu", "tau"], "no draws of tau")):
        row = posterior_grid.cell(target, variables, "auto", 1, {}, lambda *_: (fit, 1.0))
        assert (row["passed"], row["missed"]) == (not missed, missed)


def test_the_grid_counts_seeds_beside_the_published_ones():
    rows = [
        {"posterior": name, "sampler": sampler, "passed": passed}
        for name, sampler, passed in (
            ("arK-arK", "auto", True), ("arK-arK", "auto", False), ("arK-arK", "nuts", True),
            ("other", "auto", True),
        )
    ]  # fmt: skip
    table = posterior_grid.grid(pd.DataFrame(rows)).set_index("posterior")
    assert table.loc["arK-arK", "auto"] == "1/2"
    assert table.loc["arK-arK", "CmdStan 2.39"] == "3/3"
    assert table.loc["other", "CmdStan 2.39"] == ""
    assert table.loc["all", ["auto", "nuts", "oWALNUTS"]].tolist() == ["2/3", "1/1", "3/3"]


def test_a_posterior_of_the_database_passes_and_an_unknown_one_says_why(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STANADAPT_BACKEND", "stanli")
    words = ["--posteriordb", str(tiny(tmp_path)), "--posteriors", f"{NAME},no-such"]
    words += ["--seeds", "1", "--samplers", "auto,nutpie"]
    posterior_grid.main(words)
    cells = pd.read_csv("output/benchmarks/posterior_grid/cells.csv")
    passed = cells[cells["sampler"] == "auto"].set_index("posterior")["passed"]
    assert passed.to_dict() == {NAME: True, "no-such": False}
    printed = capsys.readouterr().out
    assert "has no posterior 'no-such'" in printed
    assert "nutpie is left out" in printed
