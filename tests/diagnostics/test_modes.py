"""modes(): positions and weights of modes, and messages about their reliability."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.hill_climb import climb, group_ends, make_frame
from stanadapt.diagnostics.modes import _permuted
from stanadapt.errors import codes_of
from stanadapt.targets.stan import bundled
from tests.helpers.codes import raises, warns

# three modes of unequal width, in a vector and a positive scale
MIXTURE = """
data { int d; }
parameters { vector[d] x; real<lower=0> s; }
model {
  real low = log(0.7) + normal_lpdf(x | 0, 1) + lognormal_lpdf(s | 0, 0.1);
  real far = log(0.2) + normal_lpdf(x[1] | 9, 0.3) + lognormal_lpdf(s | 4, 0.3);
  real wide = log(0.1) + normal_lpdf(x[1] | -12, 1.5) + lognormal_lpdf(s | -3, 0.2);
  if (d > 1) {
    far += normal_lpdf(x[2 : d] | 0, 1);
    wide += normal_lpdf(x[2 : d] | 0, 1);
  }
  target += log_sum_exp({low, far, wide});
}
"""
WEIGHTS = np.array([0.7, 0.2, 0.1])


def mixture(dim=2):
    return sa.Target(MIXTURE, {"d": dim})


def drawn(rng, dim, which):
    """Exact draws from the components of the mixture; `which` has shape (chain, draw)."""
    x = rng.normal(size=(*which.shape, dim))
    x[..., 0] = np.array([0, 9, -12])[which] + np.array([1, 0.3, 1.5])[which] * x[..., 0]
    log_s = np.array([0, 4, -3])[which] + np.array([0.1, 0.3, 0.2])[which] * rng.normal(
        size=which.shape
    )
    return fit(x=x, s=np.exp(log_s))


def fit(**posterior):
    return results.build({"posterior": posterior}, {"sampler": "exact"})


def codes(table):
    return codes_of(table.attrs["messages"])


def message(table, code):
    """Return the only message with a code."""
    (text,) = (m for m in table.attrs["messages"] if m.code == code)
    return text


@pytest.mark.parametrize("dim", [2, 20])
def test_independent_draws(dim):
    rng, target = np.random.default_rng(dim), mixture(dim)
    which = rng.choice(3, p=WEIGHTS, size=(4, 1000))
    table = sa.modes(drawn(rng, dim, which), target)
    assert len(table) == 3
    # independent draws: four binomial standard errors suffice
    binomial = np.sqrt(WEIGHTS * (1 - WEIGHTS) / which.size)
    assert np.all(np.abs(table["weight"] - WEIGHTS) < 4 * binomial)
    # the larger of two errors, one of them from the spread of four chains only
    assert np.all(table["error"] > 0.7 * binomial)
    assert np.all(table["error"] < 3 * binomial)
    for chain in range(4):
        share = [(which[chain] == m).mean() for m in range(3)]
        # the modes are so distant that no draw is nearest to a climbed draw of another
        assert table[f"weight_{chain + 1}"].to_numpy() == pytest.approx(share, abs=1e-9)
    assert codes(table) == ["mode_weights_agree", "unseen_modes"]
    for row, x, log_s in zip(table.itertuples(), [0, 9, -12], [0, 4, -3], strict=True):
        # on the unconstrained scale log s is normal: its mode is its median
        position = np.array([x, *[0.0] * (dim - 1), log_s])
        assert row.position["x"] == pytest.approx(position[:-1], abs=1e-3)
        assert row.position["s"] == pytest.approx(np.exp(log_s), rel=1e-3)
        assert row.log_density == pytest.approx(target.evaluate(position)[0], abs=1e-4)


def test_one_chain_and_many_draws():
    rng = np.random.default_rng(2)
    table = sa.modes(drawn(rng, 2, rng.choice(3, p=WEIGHTS, size=(1, 2000))), mixture())
    assert len(table) == 3
    assert codes(table) == ["one_chain", "unseen_modes"]
    assert table.loc[1, "error"] == pytest.approx(np.sqrt(0.21 / 2000), rel=0.3)
    rng = np.random.default_rng(3)
    which = rng.choice(3, p=WEIGHTS, size=(4, 20_000))
    table = sa.modes(drawn(rng, 2, which), mixture(), starts=60)
    assert table["weight"].to_numpy() == pytest.approx(WEIGHTS, abs=4 * np.sqrt(0.21 / 20_000))


def visits(kind):
    """Return the modes of draws, shape (chain, draw), of chains that do not agree."""
    which = np.random.default_rng(4).choice(3, p=WEIGHTS, size=(4, 1000))
    if kind == "a chain lacks a mode":
        which[1][which[1] == 1] = 0
    if kind == "no chain moves":
        which[:] = np.array([[0], [0], [0], [1]])
    if kind == "one chain weighs them differently":
        which[3] = np.random.default_rng(6).choice(3, p=[0.4, 0.4, 0.2], size=1000)
    if kind == "a chain lacks a rare mode":
        which[:] = 0
        which[:3, ::200] = 1  # five draws of a thousand
    if kind == "chains seldom switch":  # each weight is off by chance
        which = np.cumsum(np.random.default_rng(4).random((4, 1000)) < 0.02, axis=1) % 2
    return which


DISAGREE = {
    "a chain lacks a mode": ["chain_missed_mode", "mode_weights_differ", "unseen_modes"],
    "no chain moves": ["no_mode_switches", "unseen_modes"],
    "one chain weighs them differently": ["mode_weights_differ", "unseen_modes"],
    "a chain lacks a rare mode": ["rare_mode", "mode_weights_agree", "unseen_modes"],
    "chains seldom switch": ["mode_weights_agree", "unseen_modes"],
}


@pytest.mark.parametrize("kind", DISAGREE)
def test_chains_that_do_not_agree(kind):
    starts = 1000 if "rare" in kind else 200
    table = sa.modes(drawn(np.random.default_rng(5), 2, visits(kind)), mixture(), starts=starts)
    assert codes(table) == DISAGREE[kind]
    if kind == "a chain lacks a mode":
        text = message(table, "chain_missed_mode")
        assert all(fact in text for fact in ("Chain 2", "mode 2", "0.2"))
        # from the spread of chains, not from the draws of each
        assert table.loc[2, "error"] > 3 * np.sqrt(0.15 * 0.85 / 4000)
    if kind == "no chain moves":
        assert table["weight"].tolist() == [0.75, 0.25]
        # means 0, 0, 0, 1: their sd is 1/2, that of their mean 1/4
        assert table["error"].to_numpy() == pytest.approx(0.25)
    if kind == "a chain lacks a rare mode":
        text = message(table, "rare_mode")
        assert "Chain 4" in text
        assert "mode 2" in text


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "data"), [
    ("gaussian", "two_dim"), ("ring", "ring"), ("neal", "neal"),
    pytest.param("banana", "strong", marks=pytest.mark.slow),
    pytest.param("flower", "flower", marks=pytest.mark.slow),
    pytest.param("eight_schools_noncentered", "eight_schools", marks=pytest.mark.slow),
])  # fmt: skip
def test_programs_of_one_mode(name, data):
    target = sa.Target(*bundled.find(name, data))
    plan = {"chains": 2, "iter_warmup": 300, "iter_sampling": 300}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # divergences
        draws = sa.sample(target, "nuts", seed=1, **plan)
    table = sa.modes(draws, target)
    assert table["weight"].tolist() == [1.0]
    assert table["error"].tolist() == [0.0]
    assert np.isfinite(table.loc[1, "log_density"])
    assert "chains_in_one_mode" in codes(table)


def test_heavy_tails_in_strongly_correlated_units():
    code = """
    parameters { vector[3] x; }
    model { x ~ multi_student_t(2, [1, 2, 3]', [[1, 0, 0], [0, 1e4, 99], [0, 99, 1]]); }
    """
    rng = np.random.default_rng(8)
    root = np.linalg.cholesky([[1, 0, 0], [0, 1e4, 99], [0, 99, 1]])
    x = rng.normal(size=(2, 500, 3)) @ root.T / np.sqrt(rng.gamma(1, 1, (2, 500, 1)))
    target = sa.Target(code)
    table = sa.modes(fit(x=x + np.array([1, 2, 3])), target, starts=100)
    assert len(table) == 1
    assert table.loc[1, "position"]["x"] == pytest.approx([1, 2, 3], rel=1e-2)


@pytest.mark.filterwarnings(r"ignore:.*\[failed_evaluations\]")
def test_a_funnel_is_reported_as_a_region():
    target = sa.Target(*bundled.find("eight_schools_centered", "eight_schools"))
    plan = {"chains": 2, "iter_warmup": 300, "iter_sampling": 300}
    with warns("divergences"):
        draws = sa.sample(target, "nuts", seed=1, **plan)
    table = sa.modes(draws, target, starts=40)
    assert len(table) == 1
    assert np.isnan(table.loc[1, "log_density"])
    assert table.loc[1, "position"] == {}
    assert "no_maximum" in codes(table)
    assert "ow 1" in message(table, "no_maximum")


def bimodal(distance):
    """Two normals of unequal weight and sd 1, at a distance of some standard deviations."""

    def evaluate(x):
        parts = np.log([0.6, 0.4]) - 0.5 * (x[0] - np.array([0, distance])) ** 2
        shares = np.exp(parts - logsumexp(parts))
        gradient = np.array([-(shares @ (x[0] - np.array([0, distance]))), -x[1] / 1e4])
        return logsumexp(parts) - 0.5 * x[1] ** 2 / 1e4, gradient, ""

    return evaluate


def ends_of(evaluate, starts):
    frame = make_frame(starts - starts.mean(axis=0), starts.std(axis=0))
    return climb(evaluate, starts, frame), frame


@pytest.mark.parametrize(("distance", "count"), [(2.0, 1), (2.8, 1), (3.6, 2), (8.0, 2)])
def test_a_shallow_saddle_joins(distance, count):
    """At a distance of 2.8 sd, the saddle is at most 0.3 deep, at 3.6 sd about 0.7."""
    rng = np.random.default_rng(9)
    starts = rng.normal(size=(60, 2)) * [1, 100] + np.array([distance, 0]) * rng.integers(
        0, 2, (60, 1)
    )
    ends, frame = ends_of(bimodal(distance), starts)
    assert group_ends(bimodal(distance), ends, frame, 0.5).max() + 1 == count


def test_a_low_bump_between_two_modes_does_not_join_them():
    """The bump is lower than either mode by more than the dip, and near each of them."""
    centers, heights = np.array([-4.0, 0.0, 4.0]), np.array([0.0, -3.0, 0.0])

    def evaluate(x):
        parts = heights - np.array([0.5, 0.2, 0.5]) * (x[0] - centers) ** 2
        shares = np.exp(parts - logsumexp(parts))
        slope = -shares @ (np.array([1, 0.4, 1]) * (x[0] - centers))
        return logsumexp(parts), np.array([slope]), ""

    starts = np.concatenate([np.linspace(-5, 5, 41)])[:, None]
    ends, frame = ends_of(evaluate, starts)
    assert len(np.unique(ends.position.round(2))) == 3
    group = group_ends(evaluate, ends, frame, 1.0)
    assert group.max() == 1
    assert group[0] != group[-1]


def test_walls_and_endless_slopes():
    def walled(x):
        if x[0] > 0.5:
            return -np.inf, np.full(2, np.nan), "Exception: behind the wall."
        return -0.5 * (x @ x), -x, ""

    starts = np.random.default_rng(10).normal(-2, 0.5, size=(40, 2))
    ends, frame = ends_of(walled, starts)
    assert ends.position == pytest.approx(np.zeros((40, 2)), abs=1e-3)
    assert ends.inside.all()
    assert group_ends(walled, ends, frame, 0.5).max() == 0
    starts = np.random.default_rng(11).normal(size=(20, 2))
    ends, _ = ends_of(lambda x: (x[0] - x[1] ** 2, np.array([1.0, -2 * x[1]]), ""), starts)
    assert not ends.inside.any()
    assert np.isfinite(ends.position).all()


@pytest.mark.parametrize("kind", ["vector", "ordered"])
def test_labels_of_a_mixture_switch_unless_they_are_ordered(kind):
    """And another vector of the same length changes its order with the first."""
    code = f"""parameters {{ {kind}[3] m; vector[3] w; }} model {{ vector[3] c = [-9, 0, 9]';
      target += log_sum_exp(normal_lpdf(m | c, 0.3) + normal_lpdf(w | c, 0.3),
        normal_lpdf(m | reverse(c), 0.3) + normal_lpdf(w | reverse(c), 0.3)); }}"""
    rng = np.random.default_rng(2)
    center, flip = np.array([-9.0, 0.0, 9.0]), rng.random((4, 250, 1)) < 0.5 * (kind == "vector")
    draws = [np.where(flip, -center, center) + 0.3 * rng.normal(size=(4, 250, 3)) for _ in "mw"]
    table = sa.modes(fit(m=draws[0], w=draws[1]), sa.Target(code))
    assert len(table) == 1 + (kind == "vector")
    assert ("labels_switch" in codes(table)) == (kind == "vector")
    if kind == "vector":
        assert "the entries of m" in message(table, "labels_switch")
        first, second = (dict(table.loc[i, "position"]) for i in (1, 2))
        assert _permuted(first, second) == "m"
        assert not _permuted(first, {**second, "w": first["w"]})
        equal = {"w": np.ones(3), "none": np.empty(0)}  # as weights may be
        assert _permuted({**first, **equal}, {**second, **equal}) == "m"
        assert not _permuted(equal, {"w": np.array([1.0 + 1e-9, 1.0, 1.0])})


def test_wrong_arguments():
    target, rng = mixture(), np.random.default_rng(12)
    usual = drawn(rng, 2, np.zeros((2, 100), dtype=int))
    with pytest.raises(sa.StanadaptError):
        sa.modes(usual, "program")
    with raises("not_a_fit", "dict"):
        sa.modes({"x": 1}, target)
    with raises("not_a_target", "fit first"):
        sa.modes(target, usual)
    with raises("out_of_range", "starts", 10, 3):
        sa.modes(usual, target, starts=3)
    with raises("missing_parameter", "lacks s"):
        sa.modes(fit(x=np.zeros((2, 100, 2))), target)
    with raises("too_few_starts", 10, 4):
        sa.modes(drawn(rng, 2, np.zeros((2, 2), dtype=int)), target)
    other = results.build({"posterior": {"x": np.zeros((2, 50))}}, {"program_hash": "other"})
    with pytest.raises(sa.StanadaptError) as caught:
        sa.modes(other, target)
    assert "program_hash" in caught.value.message
    noisy = sa.Target(
        "parameters { real x; vector[2] u; } model { x ~ normal(u[1], 1); u ~ std_normal(); }",
        noise="u",
    )  # fmt: skip
    with raises("estimated_density", noisy.name):
        sa.modes(usual, noisy)


def test_draws_on_a_boundary_are_left_out():
    rng = np.random.default_rng(13)
    draws = drawn(rng, 2, rng.choice(3, p=WEIGHTS, size=(2, 500)))
    draws["posterior"]["s"].values[0, :7] = 0.0  # underflow of exp
    table = sa.modes(draws, mixture())
    assert len(table) == 3
    assert table["weight"].sum() == pytest.approx(1)
    assert "7 draws" in message(table, "boundary_draws")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(14)
    return sa.modes(drawn(rng, 20, rng.choice(3, p=WEIGHTS, size=(2, 500))), mixture(20))


def test_its_text_is_a_table_with_messages(table, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert capsys.readouterr().out == ""
    text = repr(table)
    head, *rows = text.splitlines()
    for title in ("mode", "weight", "error", "chain 1", "chain 2", "log density", "x[1]"):
        assert title in head
    assert "x[7]" not in head
    assert [row.split()[0] for row in rows[:3]] == ["1", "2", "3"]
    assert table.attrs["messages"][-1] in text


def test_a_notebook_and_a_file_have_the_table(table, tmp_path):
    page = table._repr_html_()
    assert page.count("<tr>") == 4
    assert "<th>x[1]</th>" in page
    assert page.count("<p>") == len(table.attrs["messages"])
    flat = table.scalar_columns()
    assert flat.loc[2, "x[1]"] == pytest.approx(9, abs=0.01)
    assert "x[20]" in flat
    flat.to_csv(tmp_path / "modes.csv")
