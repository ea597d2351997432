"""The exact block of many coordinates is read from a thousand gradients, or there is none."""

import numpy as np
import pytest
from scipy import sparse

import stanadapt as sa
from stanadapt.diagnostics.mixing import mixing
from stanadapt.engine.block_map import pack
from stanadapt.engine.triangular_map import no_map
from stanadapt.samplers.whitened import scaled_block, sparse_block
from stanadapt.samplers.whitened.block_structure import Members, apply_block, find_block
from stanadapt.samplers.whitened.straighten import SINGLE, straighten
from stanadapt.samplers.whitened.straightened import Straightened, parts_of
from stanadapt.targets.declared_bounds import CORRELATION
from tests.helpers.short_runs import assert_same_draws, values

N = 160


def steps(n, by=1, share=1.0):
    """Differences of each state and the one before."""
    return sparse.diags_array([-share, 1.0], offsets=[0, by], shape=(n - by, n))


class Conditional:
    """A posterior that is Gaussian given hubs, which come first: terms are (f, A, h)."""

    def __init__(self, hints, terms):
        self.hints, self.terms = hints, terms

    def gradients(self, rows):
        """Gradients at rows; those of hubs are sines."""
        hubs, x = rows[:, : len(self.hints)], rows[:, len(self.hints) :]
        inside = sum(f(hubs)[:, None] * (h - (A @ x.T).T) for f, A, h in self.terms)
        return np.concatenate([np.sin(hubs), inside], axis=1)

    def rows(self, seed=1):
        """Places around made-up draws, with their gradients."""
        rng = np.random.default_rng(seed)
        n = self.terms[0][1].shape[0]
        x = 2.0 + rng.standard_normal((40, len(self.hints) + n)) * rng.uniform(0.5, 2.0)
        x[:, : len(self.hints)] = rng.uniform(-1.0, 0.5, (40, len(self.hints)))
        rows = sparse_block.places(x, self.gradients(x), np.arange(len(self.hints)))
        due = np.isnan(rows[:, 1]).all(axis=1)
        assert due.sum() == len(rows) - 40
        rows[due, 1] = self.gradients(rows[due, 0])
        return rows


class Counted(Conditional):
    """The same with another likelihood, whose score is a function of all coordinates."""

    held: int | None = 0  # number of its own parameters that stay

    def __init__(self, hints, terms, score):
        super().__init__(hints, terms)
        self.score = score

    def gradients(self, rows):
        """Gradients at rows, with those of the likelihood."""
        return super().gradients(rows) + self.score(rows)

    def center_and_pairs(self):
        """The position around which pairs lie, and these, with their gradients."""
        rng, hubs = np.random.default_rng(3), np.arange(len(self.hints))
        x = rng.uniform(-1.0, 0.5, (40, len(hubs) + self.terms[0][1].shape[0]))
        far = scaled_block.places_without(x, hubs)
        far[:, 1] = self.gradients(far[:, 0])
        bounds = np.zeros((len(hubs), 4))
        bounds[:, 0] = hubs
        self.scales = scaled_block.find_scales(far, bounds)
        self.by = self.scales.by
        if self.scales.are_factors:
            rows = sparse_block.pairs_of_places(x, hubs, self.by, self.scales.others[: self.held])
        else:
            rows = scaled_block.pairs_with_scales(x, hubs, self.scales)
        assert np.isnan(rows[:, 1]).all()
        rows[:, 1] = self.gradients(rows[:, 0])
        return rows[0, 0], rows


def scale(hub):
    return lambda p: np.exp(-2.0 * p[:, hub])


def one(p):
    return np.ones(len(p))


def first_state(n, precision=0.04):
    return sparse.csr_array(([precision], ([0], [0])), shape=(n, n))


def level(n=N):
    """States of a local level: hubs are the logs of the sds of its steps and of the data."""
    y = np.random.default_rng(5).standard_normal(n)
    walk = steps(n).T @ steps(n)
    return Conditional(
        {0: None, 1: None},
        [(one, first_state(n), np.zeros(n)), (scale(0), walk, np.zeros(n)),
         (scale(1), sparse.eye_array(n), y)],
    )  # fmt: skip


def level_and_season(n=90, period=12):
    """A level and seasonal effects, whose last twelve have a small sum: up to 24 neighbors."""
    y = np.random.default_rng(5).standard_normal(n)
    sums = sparse.diags_array(np.ones(period), offsets=np.arange(period), shape=(n - period, n))
    nothing = sparse.csr_array((n, n))
    both = sparse.hstack([sparse.eye_array(n), sparse.eye_array(n)])
    prior = sparse.diags_array(np.append(np.full(period, 0.25), np.zeros(n - period)))
    return Conditional(
        {0: None, 1: None, 2: None},
        [(one, sparse.block_diag([first_state(n), prior]), np.zeros(2 * n)),
         (scale(0), sparse.block_diag([steps(n).T @ steps(n), nothing]), np.zeros(2 * n)),
         (scale(1), sparse.block_diag([nothing, sums.T @ sums]), np.zeros(2 * n)),
         (scale(2), both.T @ both, np.tile(y, 2))],
    )  # fmt: skip


def autoregressive(n=N):
    """An AR(1) process around a mean, which all states depend on, with an unknown coefficient."""
    y = np.random.default_rng(5).standard_normal(n)
    around = sparse.hstack([sparse.eye_array(n), -np.ones((n, 1))])
    inner = sparse.diags_array(np.append(0.0, np.append(np.ones(n - 2), 0.0)))
    ends = sparse.diags_array(np.append(1.0, np.append(np.zeros(n - 2), 1.0)))
    beside = -sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(n, n))
    data = sparse.block_diag([sparse.eye_array(n), [[0.0]]])
    zeros = np.zeros(n + 1)

    def power(k):
        return lambda p: np.exp(-2.0 * p[:, 0]) * np.tanh(p[:, 1]) ** k

    # of x' P x with P = ends + (1 + rho^2) inner + rho beside
    terms = [
        (power(0), around.T @ (ends + inner) @ around, zeros),
        (power(1), around.T @ beside @ around, zeros),
        (power(2), around.T @ inner @ around, zeros),
        (scale(2), data, np.append(y, 0.0)),
        (one, sparse.csr_array(([0.04], ([n], [n])), shape=(n + 1, n + 1)), zeros),
    ]
    return Conditional({0: None, 1: CORRELATION, 2: None}, terms)


@pytest.mark.parametrize("model", [level, level_and_season, autoregressive])
def test_the_block_of_many_coordinates_is_exact(model):
    made = model()
    block = sparse_block.find_sparse_block(made.rows(), made.hints)
    assert len(block.functions) == len(made.terms)
    assert sorted(block.map.block) == list(range(len(made.hints), block.map.block.max() + 1))
    # elsewhere, and deep in a neck of the first scale
    rng = np.random.default_rng(7)
    x = rng.standard_normal((30, len(made.hints) + made.terms[0][1].shape[0]))
    x[:10, 0] = -6.0
    y, slopes, _ = apply_block(block.map, x, made.gradients(x))
    np.testing.assert_allclose(slopes[:, block.map.block], -y[:, block.map.block], atol=1e-6)


def test_a_walk_is_read_to_the_bit_and_stored_as_a_band():
    made = level()
    found = sparse_block.find_sparse_block(made.rows(), made.hints).map
    assert found.precisions.shape[1] == 2 * N - 1
    assert set(np.unique(found.precisions[1:])) == {-1.0, 0.0, 1.0, 2.0}


def test_it_is_the_block_that_regressions_on_all_coordinates_find():
    made = level(60)
    rng = np.random.default_rng(2)
    x = rng.standard_normal((500, 62))
    x[:, :2] = rng.uniform(-1.0, 0.5, (500, 2))
    one, other = (
        sparse_block.find_sparse_block(made.rows(), made.hints),
        find_block(x, made.gradients(x), made.hints),
    )
    same = [one.functions.index(f) for f in other.functions]
    for field in ("hubs", "block", "first", "start"):
        np.testing.assert_array_equal(getattr(one.map, field), getattr(other.map, field))
    np.testing.assert_allclose(one.map.precisions[same], other.map.precisions, atol=1e-9)
    np.testing.assert_allclose(one.map.shifts[same], other.map.shifts, atol=1e-9)


def at(column, change):
    """A change of one column of gradients."""
    return change[:, None] * np.eye(202)[column]


# changes of the gradients at x, of two scales and 200 states
SPOILED = {
    "a wrong row": lambda x, g: at(40, 0.01 * g[:, 90] * x[:, 40]),
    "a curved state": lambda x, g: at(77, -0.01 * np.exp(0.1 * x[:, 77])),
    "noise": lambda x, g: 1e-5 * g * np.random.default_rng(3).standard_normal(g.shape),
    # of one state, of no slice
    "another power of a scale": lambda x, g: at(105, -np.exp(-x[:, 0]) * x[:, 105]),
    "improper": lambda x, g: np.where(np.arange(202) < 2, 0.0, -2.0 * g),
    "dense": lambda x, g: -0.01 * x[:, 2:].sum(axis=1, keepdims=True) * (np.arange(202) > 1),
    "not symmetric": lambda x, g: at(50, -0.1 * np.exp(-2.0 * x[:, 0]) * x[:, 51]),
    "Gaussian for small steps alone": lambda x, g: at(9, (x[:, 0] > 0.4) * np.tanh(x[:, 9])),
    "no gradients": lambda x, g: np.full_like(g, np.nan),
}


@pytest.mark.parametrize("change", SPOILED.values(), ids=list(SPOILED))
def test_a_block_that_is_not_exact_is_not_taken(change):
    made = level(200)
    rows = made.rows()
    rows[:, 1] += change(rows[:, 0], rows[:, 1])
    assert sparse_block.find_sparse_block(rows, made.hints) is None


def test_places_whose_gradient_failed_are_left_out():
    made = level()
    rows = made.rows()
    rows[5::9, 1] = np.inf
    assert len(sparse_block.find_sparse_block(rows, made.hints).map.block) == N


# --- other likelihoods ----------------------------------------------------------------------------


def counts(by_mean=False, n=60):
    """Logs of means of counts, as a walk; around a mean of their own, or not."""
    y = np.random.default_rng(5).poisson(2.0, n)
    terms = [(one, first_state(n), np.zeros(n)), (scale(0), steps(n).T @ steps(n), np.zeros(n))]
    if by_mean:
        last = first_state(n + 1) + sparse.csr_array(([1.0], ([n], [n])), shape=(n + 1, n + 1))
        walk = sparse.block_diag([terms[1][1], [[0.0]]])
        terms = [(one, last, np.zeros(n + 1)), (scale(0), walk, np.zeros(n + 1))]

    def score(rows):
        states = rows[:, 1 : n + 1]
        left = y - np.exp(states + rows[:, n + 1 :]) if by_mean else y - np.exp(states)
        found = np.zeros_like(rows)
        found[:, 1 : n + 1] = left
        if by_mean:
            found[:, -1] = left.sum(axis=1)
        return found

    return Counted({0: None}, terms, score)


def multiplied_counts(n=60):
    """The same around a mean, as steps of a noncentered program, which a scale multiplies."""
    y = np.random.default_rng(5).poisson(2.0, n)
    walk = sparse.block_diag([first_state(n) + steps(n).T @ steps(n), [[1.0]]])

    def score(rows):
        scales, mean = np.exp(rows[:, :1]), rows[:, n + 1 :]
        left = y - np.exp(scales * rows[:, 1 : n + 1] + mean)
        return np.hstack([np.zeros_like(mean), scales * left, left.sum(axis=1, keepdims=True)])

    return Counted({0: None}, [(one, walk, np.zeros(n + 1))], score)


def test_products_of_effects_and_a_scale_stay_where_pairs_of_places_lie():
    made = multiplied_counts()
    center, rows = made.center_and_pairs()
    np.testing.assert_array_equal(made.by[0], [False, *[True] * 60, False])
    block = sparse_block.find_nearly_block(rows, made.hints)
    assert sorted(block.functions) == [(), ((0, True, 1),), ((0, True, 2),)]
    x = np.tile(center, (20, 1))
    x[:, 0] = np.linspace(-6.0, 1.0, 20)
    x[:, 1:61] *= np.exp(center[0] - x[:, :1])
    y, slopes, _ = apply_block(block.map, x, made.gradients(x))
    np.testing.assert_allclose(slopes[:, 1:], -y[:, 1:], atol=1e-5 * np.abs(y).max())


@pytest.mark.parametrize("by_mean", [False, True])
def test_the_second_order_of_counts_adds_to_the_precision_of_their_prior(by_mean):
    made = counts(by_mean)
    center, rows = made.center_and_pairs()
    rows[10:12, 1] = np.inf  # whose gradients failed
    block = sparse_block.find_nearly_block(rows, made.hints)
    assert not made.by.any()
    assert sorted(block.functions) == [(), ((0, True, -2),)]
    walk = block.map.precisions[block.functions.index(((0, True, -2),))]
    assert set(np.unique(walk)) | {0.0} == {-1.0, 0.0, 1.0, 2.0}
    # near that position, with any hub, a neck included, gradients are those of the map's normal
    rng = np.random.default_rng(7)
    x = center + 1e-5 * rng.standard_normal((20, len(center)))
    x[:, 0] = np.linspace(-6.0, 1.0, 20)
    y, slopes, _ = apply_block(block.map, x, made.gradients(x))
    np.testing.assert_allclose(slopes[:, 1:], -y[:, 1:], atol=1e-5)


def test_what_remains_of_a_nearly_gaussian_block_is_that_of_its_hubs():
    made = counts()
    center, rows = made.center_and_pairs()
    block = sparse_block.find_nearly_block(rows, made.hints).map
    x = center + 0.5 * np.random.default_rng(7).standard_normal((90, len(center)))
    found = Straightened(no_map(pack(block)), (), 2.0, np.inf, exact=False)
    measured = straighten(x, made.gradients(x), found, 0.0)
    y, slopes, _ = apply_block(block, x, made.gradients(x))
    assert measured.distance == pytest.approx(float(parts_of(y[:, :1], slopes[:, :1])[0]))
    assert measured.second == (measured.distance if measured.distance > SINGLE else 0.0)


@pytest.mark.parametrize(
    "other",
    [
        lambda rows: 20.0 * rows,  # no maximum
        lambda rows: -np.logaddexp(0.0, rows[:, :1]) * rows,  # the likelihood has a hub
        lambda rows: -0.01 * rows.sum(axis=1, keepdims=True) * np.ones_like(rows),  # dense
        lambda rows: np.nan * rows,
    ],
)
def test_a_likelihood_of_another_form_leaves_no_block(other):
    made = counts()
    score = made.score
    made.score = lambda rows: score(rows) + other(rows)
    assert sparse_block.find_nearly_block(made.center_and_pairs()[1], made.hints) is None


def spectral_counts(n=40, members=24):
    """Counts whose log means are a Gaussian process: the second hub is the log of its length."""
    rng = np.random.default_rng(5)
    basis = np.sin(np.outer(np.linspace(0.0, 3.0, n), np.arange(1, members + 1)))
    squares = 5.76 * (np.arange(1, members + 1) / members) ** 2
    y = rng.poisson(np.exp(1.0 + np.sin(np.linspace(0.0, 6.0, n))))

    def scales(hubs):
        return np.exp(hubs[:, :1] + 0.5 * hubs[:, 1:] - squares * np.exp(2.0 * hubs[:, 1:]))

    def score(rows):
        s = scales(rows[:, :2])
        left = y - np.exp((s * rows[:, 2:-1]) @ basis.T + rows[:, -1:])
        return np.hstack([0.0 * rows[:, :2], s * (left @ basis), left.sum(axis=1, keepdims=True)])

    prior = [(one, sparse.eye_array(members + 1), np.zeros(members + 1))]
    return Counted({0: None, 1: None}, prior, score), scales


def test_scales_that_are_functions_of_several_hubs_are_read_where_members_are_zero():
    made, scales = spectral_counts()
    center, rows = made.center_and_pairs()
    assert not made.scales.are_factors
    np.testing.assert_array_equal(made.scales.splines.hubs, [0, 1])
    block = scaled_block.find_scaled_block(rows, made.hints, made.scales).map
    assert set(block.precisions[0]) == {0.0, 1.0}
    # with all products where they were, gradients are those of the map's normal, far away as well
    middle = made.scales.splines.grid @ (1.0, scaled_block.MIDDLE)
    x = np.tile(center, (20, 1))
    x[:, :2] = middle + np.random.default_rng(7).uniform(-1.5, 1.0, (20, 2))
    raised = np.exp(scaled_block.RAISED)
    x[:, 2:-1] *= raised * scales(middle[None]) / scales(x[:, :2])
    y, slopes, _ = apply_block(block, x, made.gradients(x))
    np.testing.assert_allclose(slopes[:, 2:], -y[:, 2:], atol=0.01)


@pytest.mark.parametrize(("members", "found"), [(50, True), (64, False)])
def test_a_block_with_scales_costs_less_than_it_saves(members, found):
    made, _ = spectral_counts(members=members)
    block = scaled_block.find_scaled_block(made.center_and_pairs()[1], made.hints, made.scales)
    assert (block is not None) == found


def dispersed_counts(n=60):
    """Negative binomial counts around a walk: the second hub is the log of their dispersion."""
    y = np.random.default_rng(5).poisson(3.0, n)

    def score(rows):
        phi, means = np.exp(rows[:, 1:2]), np.exp(rows[:, 2:])
        return np.hstack([0.0 * rows[:, :2], phi * (y - means) / (phi + means)])

    walk = steps(n).T @ steps(n)
    terms = [(one, first_state(n), np.zeros(n)), (scale(0), walk, np.zeros(n))]
    return Counted({0: None, 1: None}, terms, score)


def test_a_parameter_of_the_likelihood_stays_if_there_is_no_block_otherwise():
    made = dispersed_counts()
    assert sparse_block.find_nearly_block(made.center_and_pairs()[1], made.hints) is None
    np.testing.assert_array_equal(made.scales.others, [1])
    made.held = None
    block = sparse_block.find_nearly_block(made.center_and_pairs()[1], made.hints)
    assert sorted(block.functions) == [(), ((0, True, -2),)]


# --- whole runs -----------------------------------------------------------------------------------

STATES = 320
LEVEL = f"""data {{ vector[{STATES}] y; }}
parameters {{ vector[{STATES}] u; real<lower=0> s_u; real<lower=0> s_x; }}
model {{
  s_u ~ normal(0, 1); s_x ~ normal(0, 1);
  u[1] ~ normal(0, 5); u[2:] ~ normal(u[:{STATES - 1}], s_u); y ~ normal(u, s_x);
}}"""


def shares_exact(y, points, low, high):
    """Shares of the mass of log s_u and log s_x below points, by a Kalman filter on a grid."""
    logs = [np.linspace(low[i], high[i], 300) for i in range(2)]
    log_u, log_x = np.meshgrid(*logs, indexing="ij")
    u, x = np.exp(2.0 * log_u), np.exp(2.0 * log_x)
    total, mean, variance = log_u + log_x - 0.5 * (u + x), 0.0, 25.0
    for one_y in y:
        whole = variance + x
        total = total - 0.5 * (np.log(whole) + (one_y - mean) ** 2 / whole)
        mean = mean + variance / whole * (one_y - mean)
        variance = variance * x / whole + u
    mass = np.exp(total - total.max())
    cumulated = [np.cumsum(mass.sum(axis=1 - i)) - 0.5 * mass.sum(axis=1 - i) for i in range(2)]
    return [np.interp(points[i], logs[i], cumulated[i] / mass.sum()) for i in range(2)]


@pytest.mark.slow
def test_a_long_local_level_is_right_and_its_neck_is_there():
    """Its steps are small, so that the states collapse: without the block it was too short."""
    rng = np.random.default_rng(3)
    y = np.cumsum(0.03 * rng.standard_normal(STATES)) + rng.standard_normal(STATES)
    target = sa.Target(LEVEL, {"y": y})
    fit = sa.sample(target, seed=5)
    assert fit.attrs["verdict"] == "fine"
    said = f"u[1..{STATES}] given s_u and s_x: Gaussian, straightened exactly"
    assert fit.attrs["straightening"].startswith(said)
    assert fit.attrs["n_gradients"] < 30_000  # 370,000 before, and too short
    draws = [np.log(values(fit, name)) for name in ("s_u", "s_x")]
    points = [np.quantile(each, [0.01, 0.05, 0.5, 0.95, 0.99]) for each in draws]
    low, high = ([of(each) + by for each in draws] for of, by in ((np.min, -2.0), (np.max, 1.0)))
    for each, at, exact in zip(draws, points, shares_exact(y, points, low, high), strict=True):
        for point, share in zip(at, exact, strict=True):
            below = (each < point).astype(float)
            error = np.sqrt(share * (1.0 - share) / mixing(below).ess_bulk)
            assert below.mean() == pytest.approx(share, abs=4.0 * error)
    short = {"seed": 5, "iter_sampling": 40}
    whole = sa.sample(target, **short)
    assert_same_draws(whole, sa.sample(target, parallel_chains=4, **short))


def test_of_negative_precisions_those_that_are_left_and_know_few_states_are_eliminated():
    """Without the first member the second is positive; the last two sides know too many."""
    n = sparse_block.MOST_NEIGHBORS + 3
    whole = np.diag(np.ones(n))
    whole[:2, :2] = [[-1.0, 0.5], [0.5, -0.1]]
    whole[-1, 2:], whole[2:, -1] = 0.1, 0.1
    whole[-1, -1] = -1.0
    members = np.arange(n)
    found = Members(members, members[:0], [sparse.csr_array(whole)], np.zeros((1, n)), None)
    middle = np.ones(n)
    left = sparse_block.leave_out_negative(found, 0, middle)
    expected = whole.copy()
    expected[:2, :2] = [[0.0, 0.0], [0.0, 0.15]]
    np.testing.assert_allclose(left.precisions[0].toarray(), expected, atol=1e-14)
    # gradients in the middle stay
    np.testing.assert_allclose(left.shifts[0] - expected @ middle, -whole @ middle)
