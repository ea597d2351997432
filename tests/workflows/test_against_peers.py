"""Tables of the benchmark against peers, from made-up runs and a made-up peer."""

import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from stanadapt import results
from workflows.benchmarks import against_peers, peers
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


def test_densities_are_counted_like_gradients():
    runs = RUNS.assign(densities=RUNS["gradients"])
    halved = against_peers.summary(runs)["bulk"].to_numpy()
    assert halved == pytest.approx(against_peers.summary(RUNS)["bulk"].to_numpy() / 2)


def test_gradients_of_a_usable_fit_need_every_seed():
    table = against_peers.summary(RUNS).set_index(["program", "sampler"])
    needed = table["gradients of a usable fit"]
    assert needed["easy", "nutpie"] == pytest.approx(5000)
    assert needed["easy", "auto"] == pytest.approx(1000)
    assert needed["hard", "nutpie"] == "not"
    assert table.loc[("hard", "nutpie"), "usable"] == "1/2"


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


def test_a_run_that_failed_has_no_ratio_and_is_not_usable():
    failed = made_up("easy", "other", 1, np.nan, np.nan, False, "it broke")
    runs = pd.concat([RUNS, pd.DataFrame([failed])])
    table = against_peers.summary(runs)
    (row,) = table[table["sampler"] == "other"].to_dict("records")
    assert np.isnan(row["bulk"])
    assert (row["usable"], row["gradients of a usable fit"]) == ("0/1", "not")
    total = against_peers.headline(against_peers.ratios(table, ["auto"])).set_index("over")
    assert np.isnan(total.loc["other", "bulk"]).all()
    assert total.loc["nutpie", "bulk"].iloc[0] == pytest.approx(2)


def test_a_program_on_which_the_peer_failed_is_left_out_of_its_mean():
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


def test_a_peer_that_breaks_is_a_row_with_its_message(target, monkeypatch):
    def run(target, **lengths):
        raise RuntimeError("no step size\nand more")

    monkeypatch.setitem(peers.PEERS, "fake", peers.Peer("numpy", run))
    row = against_peers.row_of(target, "fake", 1, "auto", against_peers.SHORT)
    assert (row["usable"], row["failure"]) == (False, "no step size")


def test_peers_that_cannot_run_are_left_out_with_the_reason(monkeypatch):
    monkeypatch.setitem(peers.PEERS, "absent", peers.Peer("no_such_package", None))
    assert "no_such_package is not installed" in peers.why_left_out("absent", "cmdstan")
    assert "needs a compiled program" in peers.why_left_out("absent", "stanli")
    monkeypatch.setitem(peers.PEERS, "present", peers.Peer("numpy", None))
    assert peers.why_left_out("present", "cmdstan") == ""


def test_the_report_names_what_is_missing_and_writes_its_tables(tmp_path, capsys):
    failed = pd.DataFrame([made_up("hard", NUTS, 1, np.nan, np.nan, False, "it broke")])
    against_peers.report(tmp_path, pd.concat([RUNS, failed]), ["auto"], ["other is left out."])
    printed = capsys.readouterr().out
    assert "other is left out." in printed
    assert f"hard/d, {NUTS}, seed 1 failed: it broke" in printed
    total = pd.read_csv(tmp_path / "headline.csv")
    assert total["worst bulk"].min() == pytest.approx(0.5)


def test_unknown_names_are_answered_before_anything_runs(capsys):
    for words in (["--peers", "nutpi"], ["--programs", "no_such_program"]):
        with pytest.raises(SystemExit):
            against_peers.main(words)
        assert words[1] in capsys.readouterr().err
