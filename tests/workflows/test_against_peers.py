"""Tables of the benchmarks against peers and of the published grid, from made-up runs."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from stanadapt import results
from tests.helpers.tiny_posteriordb import NAME, tiny
from workflows.benchmarks import against_peers, peers, posterior_grid
from workflows.benchmarks.against_nuts import NUTS

PROGRAM = "parameters { real<lower=0> s; real x; } model { s ~ exponential(1); x ~ normal(0, 9); }"
LENGTHS = {"chains": 4, "iter_warmup": 50, "iter_sampling": 200}


def made_up(program, sampler, seed, ess, gradients, usable=True, failure=""):
    return {
        "program": program, "data": "d", "sampler": sampler, "seed": seed, "bulk": ess,
        "squares": ess / 2, "tail": ess / 4, "r_hat": 1.0, "usable": usable,
        "gradients": gradients, "densities": 0, "seconds": 2.0, "divergences": 0, "engine": "",
        "failure": failure,
    }  # fmt: skip


RUNS = pd.DataFrame([
    # per 1,000 gradients: ours 800 and 200, the peer's 100 and 400
    made_up("easy", "nutpie", 1, 500, 5000), made_up("easy", "nutpie", 2, 500, 5000),
    made_up("easy", "auto", 1, 800, 500), made_up("easy", "auto", 2, 800, 2000),
    made_up("hard", "nutpie", 1, 400, 1000), made_up("hard", "nutpie", 2, 400, 1000, False),
    made_up("hard", "auto", 1, 200, 1000), made_up("hard", "auto", 2, 200, 1000),
])  # fmt: skip


def test_effective_sample_sizes_are_per_thousand_gradients_of_each_run():
    table = against_peers.summary(RUNS).set_index(["program", "sampler"])
    assert table.loc[("easy", "nutpie"), "bulk"] == pytest.approx(100)
    assert table.loc[("easy", "nutpie"), "squares"] == pytest.approx(50)
    assert table.loc[("easy", "nutpie"), "tail"] == pytest.approx(25)
    # the geometric mean of 1,600 and 400
    assert table.loc[("easy", "auto"), "bulk"] == pytest.approx(800)
    needed = table["gradients of a usable fit"]
    assert needed["easy", "nutpie"] == pytest.approx(5000)
    assert needed["easy", "auto"] == pytest.approx(1000)
    assert needed["hard", "nutpie"] == "not"
    assert table.loc[("hard", "nutpie"), "usable"] == "1/2"
    runs = RUNS.assign(densities=RUNS["gradients"])
    halved = against_peers.summary(runs)["bulk"].to_numpy()
    assert halved == pytest.approx(against_peers.summary(RUNS)["bulk"].to_numpy() / 2)


def test_ratios_are_ours_over_the_peers_with_mean_and_worst():
    compared = against_peers.ratios(against_peers.summary(RUNS), ["auto"])
    total = against_peers.headline(compared).set_index("programs")
    assert list(compared["bulk"]) == pytest.approx([8, 0.5])
    assert total.loc["all", "bulk"] == pytest.approx(2)
    assert total.loc["all", "worst bulk"] == pytest.approx(0.5)
    assert total.loc["all", "count"] == 2
    assert total.loc["other usable", "bulk"] == pytest.approx(8)
    assert total.loc["other usable", "count"] == 1
    assert total.loc["all", "gradients saved"] == pytest.approx(5)


def test_peers_that_failed_have_no_ratio():
    failed = made_up("easy", "other", 1, np.nan, np.nan, False, "it broke")
    runs = pd.concat([RUNS, pd.DataFrame([failed])])
    table = against_peers.summary(runs)
    (row,) = table[table["sampler"] == "other"].to_dict("records")
    assert np.isnan(row["bulk"])
    assert (row["usable"], row["gradients of a usable fit"]) == ("0/1", "not")
    total = against_peers.headline(against_peers.ratios(table, ["auto"])).set_index("over")
    assert np.isnan(total.loc["other", "bulk"]).all()
    assert total.loc["nutpie", "bulk"].iloc[0] == pytest.approx(2)
    failed = made_up("easy", "other", 1, np.nan, np.nan, False, "it broke")
    runs = pd.concat([RUNS, pd.DataFrame([failed, made_up("hard", "other", 1, 50, 1000)])])
    compared = against_peers.ratios(against_peers.summary(runs), ["auto"])
    total = against_peers.headline(compared).set_index(["over", "programs"])
    assert total.loc[("other", "all"), "bulk"] == pytest.approx(4)
    assert total.loc[("other", "all"), "count"] == 1


@pytest.fixture
def target():
    return sa.Target(PROGRAM)


@pytest.fixture
def fake(monkeypatch):
    """A peer that draws both coordinates exactly: log s of an exponential, and a normal."""

    def run(target, *, seed, chains, iter_warmup, iter_sampling):
        rng, shape = np.random.default_rng(seed), (chains, iter_sampling)
        positions = np.stack([np.log(rng.exponential(size=shape)), 9 * rng.normal(size=shape)], -1)
        return peers.PeerDraws(positions, 7000, 2000, 3)

    monkeypatch.setitem(peers.PEERS, "fake", peers.Peer("numpy", run))
    return "fake"


def test_draws_of_a_peer_are_constrained_and_its_counts_kept(target, fake):
    fit = peers.peer_fit(target, fake, seed=1, **LENGTHS)
    drawn = results.dataset(fit, "posterior")
    assert (drawn["s"].to_numpy() > 0).all()
    # of 800 independent draws: means within four standard errors
    assert float(drawn["s"].mean()) == pytest.approx(1, abs=4 / np.sqrt(800))
    assert float(drawn["x"].std()) == pytest.approx(9, rel=4 / np.sqrt(2 * 800))
    row = against_peers.row_of(target, fake, 1, "auto", against_peers.SHORT)
    assert (row["gradients"], row["densities"], row["divergences"]) == (7000, 0, 3)
    assert row["usable"]
    assert row["failure"] == ""


def test_peers_that_break_or_cannot_run_are_rows_with_reasons(target, monkeypatch):
    def run(target, **lengths):
        raise RuntimeError("no step size\nand more")

    monkeypatch.setitem(peers.PEERS, "fake", peers.Peer("numpy", run))
    row = against_peers.row_of(target, "fake", 1, "auto", against_peers.SHORT)
    assert (row["usable"], row["failure"]) == (False, "no step size")
    monkeypatch.setitem(peers.PEERS, "absent", peers.Peer("no_such_package", None))
    assert "no_such_package is not installed" in peers.why_left_out("absent", "cmdstan")
    assert "needs a compiled program" in peers.why_left_out("absent", "stanli")
    monkeypatch.setitem(peers.PEERS, "present", peers.Peer("numpy", None))
    assert peers.why_left_out("present", "cmdstan") == ""


def test_reports_and_unknown_names(tmp_path, capsys):
    failed = pd.DataFrame([made_up("hard", NUTS, 1, np.nan, np.nan, False, "it broke")])
    against_peers.report(tmp_path, pd.concat([RUNS, failed]), ["auto"], ["other is left out."])
    printed = capsys.readouterr().out
    assert "other is left out." in printed
    assert f"hard/d, {NUTS}, seed 1 failed: it broke" in printed
    total = pd.read_csv(tmp_path / "headline.csv")
    assert total["worst bulk"].min() == pytest.approx(0.5)
    for words in (["--peers", "nutpi"], ["--programs", "no_such_program"]):
        with pytest.raises(SystemExit):
            against_peers.main(words)
        assert words[1] in capsys.readouterr().err


GOOD = {"r_hat": 1.01, "bulk": 400.0, "tail": 400.0}


def test_published_totals_and_the_edges_of_gates():
    assert len(posterior_grid.PUBLISHED) == 17
    totals = [sum(passed) for passed in zip(*posterior_grid.PUBLISHED.values(), strict=True)]
    assert totals == [42, 36, 28]
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
