"""Posteriors with a Gaussian block, so that independent draws of them are possible.

States or effects x are normal given a few hubs: scales, an autocorrelation, a correlation. With Q,
the precision of x given the hubs, and b, its product with the mean, the logarithm of the density of
the hubs is c + b' Q^-1 b / 2 - log det(Q) / 2. Hubs are drawn by importance sampling from a
mixture that is refined four times, and x given them. Tests compare them with a grid.

Programs are centered, as a beginner writes them: a local level whose data are white noise, a random
walk, an AR(1) process, a conditional autoregression of areas, crossed effects, slopes that are
correlated with levels, the amplitude of a Gaussian process, and two scales that can be exchanged.
"""

import numpy as np
from scipy.special import logsumexp

from workflows.benchmarks.known_posteriors import Known

PROPOSALS, COMPONENTS, ROUNDS = 30_000, 300, 4
SPREAD = 0.4  # of a component, in standard deviations of the draws around it
BATCH = 5_000  # precision matrices at once


def _scales(z, widths):
    """Return exp(z), and the logarithm of their half-normal densities with respect to z."""
    scales = np.exp(z)
    return scales, np.sum(z - 0.5 * (scales / widths) ** 2, axis=1)


def _weighted(weights, matrices):
    """Sum of matrices, each times a column of weights; shape (n, d, d)."""
    return np.tensordot(weights, np.asarray(matrices), axes=1)


def _level(y):
    """Half-normal scales of steps and of errors; Q = start + steps / s_u^2 + 1 / s_x^2."""
    n, unit = len(y), float(np.std(y))
    steps = np.diff(np.eye(n), axis=0)
    start = np.zeros((n, n))
    start[0, 0] = 1.0 / (2.0 * unit) ** 2

    def parts(z):
        (s_u, s_x), c = (s := _scales(z, unit))[0].T, s[1]
        precision = _weighted(np.column_stack([s_u**-2, s_x**-2]), [steps.T @ steps, np.eye(n)])
        c = c - (n - 1) * z[:, 0] - n * z[:, 1] - 0.5 * (y @ y) / s_x**2
        return precision + start, start[0] * y[0] + y / s_x[:, None] ** 2, c

    return parts, {"N": n, "X": y, "S": unit}


LEVEL = """
data { int N; vector[N] X; real S; }
parameters { vector[N] u; real<lower=0> s_u; real<lower=0> s_x; }
model {
  s_u ~ normal(0, S); s_x ~ normal(0, S);
  u[1] ~ normal(X[1], 2 * S); u[2:N] ~ normal(u[1:N - 1], s_u); X ~ normal(u, s_x);
}
"""
PROCESS = """
data { int N; vector[N] y; }
parameters { real<lower=-1, upper=1> rho; real<lower=0> s; vector[N] h; }
model {
  rho ~ uniform(-1, 1); s ~ normal(0, 1);
  h[1] ~ normal(0, s / sqrt(1 - square(rho))); h[2:N] ~ normal(rho * h[1:N - 1], s);
  y ~ normal(h, 1);
}
"""


def _process(y):
    n = len(y)
    inner, beside = np.diag(np.r_[0.0, np.ones(n - 2), 0.0]), np.eye(n, k=1) + np.eye(n, k=-1)

    def parts(z):
        rho, (s, c) = np.tanh(z[:, 0] / 2.0), _scales(z[:, 1:], 1.0)
        s = s[:, 0]
        weights = np.column_stack([s**-2, (rho / s) ** 2, -rho / s**2])
        c = c + np.log1p(-(rho**2)) * 1.5 - n * z[:, 1]  # the bound's Jacobian, and h[1]
        precision = _weighted(weights, [np.eye(n), inner, beside]) + np.eye(n)
        return precision, np.tile(y, (len(z), 1)), c

    return parts, {"N": n, "y": y}


AREAS = """
data { int N; matrix[N, N] P; vector[N] y; }
parameters { real mu; vector[N] x; real<lower=0> tau; real<lower=0> s; }
model {
  mu ~ normal(0, 5); tau ~ normal(0, 1); s ~ normal(0, 1);
  x ~ multi_normal_prec(rep_vector(0, N), P / square(tau));
  y ~ normal(mu + x, s);
}
"""
CROSSED = """
data { int I; int J; int n; array[n] int i; array[n] int j; vector[n] y; }
parameters {
  real mu; vector[I] a; vector[J] b; real<lower=0> s_a; real<lower=0> s_b; real<lower=0> s;
}
model {
  mu ~ normal(0, 5); s_a ~ normal(0, 1); s_b ~ normal(0, 1); s ~ normal(0, 1);
  a ~ normal(0, s_a); b ~ normal(0, s_b); y ~ normal(mu + a[i] + b[j], s);
}
"""
AMPLITUDE = """
data { int N; matrix[N, N] K; vector[N] y; }
transformed data { matrix[N, N] L = cholesky_decompose(K); }
parameters { real<lower=0> a; real<lower=0> s; vector[N] f; }
model {
  a ~ normal(0, 1); s ~ normal(0, 1);
  f ~ multi_normal_cholesky(rep_vector(0, N), a * L);
  y ~ normal(f, s);
}
"""
EXCHANGED = """
data { int N; vector[N] y; }
parameters { real mu; vector[N] x; real<lower=0> s_u; real<lower=0> s_x; }
model {
  mu ~ normal(0, 5); s_u ~ normal(0, 1); s_x ~ normal(0, 1);
  x ~ normal(mu, s_u); y ~ normal(x, s_x);
}
"""


def _effects(design, groups, y, prior):
    """Return parts of effects x with y ~ normal(design x, s), s being the last hub.

    `groups` are (precision up to 1 / scale^2, of the whole x, and its rank) for the other hubs, and
    `prior` is the precision that depends on no hub. All scales are half-normal.
    """
    matrices = [*(precision for precision, _ in groups), design.T @ design]
    ranks = np.array([*(rank for _, rank in groups), len(y)])

    def parts(z):
        scales, c = _scales(z, 1.0)
        last = scales[:, -1:] ** -2
        c = c - z @ ranks - 0.5 * (y @ y) * last[:, 0]
        return _weighted(scales**-2, matrices) + prior, last * (design.T @ y), c

    return parts


def _part(d, first, block):
    whole = np.zeros((d, d))
    whole[first : first + len(block), first : first + len(block)] = block
    return whole


def _areas(rng, side=5):
    n, line = side * side, np.eye(side, k=1) + np.eye(side, k=-1)
    beside = np.kron(line, np.eye(side)) + np.kron(np.eye(side), line)
    precision = np.diag(beside.sum(axis=1)) - 0.95 * beside
    x = 0.5 * np.linalg.solve(np.linalg.cholesky(precision).T, rng.normal(size=n))
    y = 1.0 + x + 0.7 * rng.normal(size=n)
    design = np.column_stack([np.ones(n), np.eye(n)])
    mean = _part(n + 1, 0, [[0.04]])
    return _effects(design, [(_part(n + 1, 1, precision), n)], y, mean), {
        "N": n, "P": precision, "y": y,
    }  # fmt: skip


def _crossed(rng, rows=12, columns=20, n=150):
    a, b = 0.7 * rng.normal(size=rows), 0.15 * rng.normal(size=columns)
    i, j = rng.integers(0, rows, n), np.minimum(columns - 1, rng.gamma(1.0, 6.0, n).astype(int))
    y = 1.0 + a[i] + b[j] + rng.normal(size=n)
    design = np.column_stack([np.ones(n), np.eye(rows)[i], np.eye(columns)[j]])
    d = design.shape[1]
    groups = [(_part(d, 1, np.eye(rows)), rows), (_part(d, 1 + rows, np.eye(columns)), columns)]
    data = {"I": rows, "J": columns, "n": n, "i": i + 1, "j": j + 1, "y": y}
    return _effects(design, groups, y, _part(d, 0, [[0.04]])), data


def _amplitude(rng, n=25):
    x = np.linspace(0.0, 4.0, n)
    kernel = np.exp(-0.5 * (np.subtract.outer(x, x) / 0.6) ** 2) + 1e-4 * np.eye(n)
    y = 0.5 * np.linalg.cholesky(kernel) @ rng.normal(size=n) + rng.normal(size=n)
    precision = np.linalg.inv(kernel)
    parts = _effects(np.eye(n), [(0.5 * (precision + precision.T), n)], y, np.zeros((n, n)))
    return parts, {"N": n, "K": kernel, "y": y}


def _exchanged(rng, n=10):
    y = 3.0 + 0.7 * rng.normal(size=n)
    away = np.column_stack([-np.ones(n), np.eye(n)])  # of the mean
    design = np.column_stack([np.zeros(n), np.eye(n)])
    return _effects(design, [(away.T @ away, n)], y, _part(n + 1, 0, [[0.04]])), {"N": n, "y": y}


SLOPES = """
data { int G; int n; array[n] int g; vector[n] x; vector[n] y; }
parameters {
  vector[2] mu; vector<lower=0>[2] tau; cholesky_factor_corr[2] L; array[G] vector[2] b;
  real<lower=0> s;
}
model {
  mu ~ normal(0, 3); tau ~ normal(0, 1); L ~ lkj_corr_cholesky(2); s ~ normal(0, 1);
  b ~ multi_normal_cholesky(mu, diag_pre_multiply(tau, L));
  for (k in 1:n) y[k] ~ normal(b[g[k], 1] + b[g[k], 2] * x[k], s);
}
"""


def _slopes(rng, groups=12, rows=6):
    truth = rng.multivariate_normal([1.0, 0.5], [[0.6, 0.1], [0.1, 0.09]], groups)
    g, x = np.repeat(np.arange(groups), rows), rng.normal(size=groups * rows)
    y = truth[g, 0] + truth[g, 1] * x + rng.normal(size=len(x))
    each, d = np.eye(groups)[g], 2 + 2 * groups
    design = np.zeros((len(x), d))
    design[:, 2::2], design[:, 3::2] = each, each * x[:, None]
    away = np.kron(np.column_stack([-np.ones(groups), np.eye(groups)]), np.eye(2))
    first, second = away[::2], away[1::2]
    matrices = [first.T @ first, second.T @ second, first.T @ second + second.T @ first]
    mean = _part(d, 0, np.eye(2) / 9.0)

    def parts(z):
        scales, c = _scales(z[:, [0, 1, 3]], 1.0)
        (t, u, s), r = scales.T, np.tanh(z[:, 2])
        inside = 1.0 - r**2
        weights = np.column_stack([1 / (inside * t**2), 1 / (inside * u**2), -r / (inside * t * u)])
        # the prior of r and the Jacobian of its bounds; determinants of `groups` covariances
        c = c + 2.0 * np.log(inside) - groups * (z[:, 0] + z[:, 1] + 0.5 * np.log(inside))
        c = c - len(y) * z[:, 3] - 0.5 * (y @ y) / s**2
        precision = _weighted(np.column_stack([weights, s**-2]), [*matrices, design.T @ design])
        return precision + mean, (design.T @ y) / s[:, None] ** 2, c

    return parts, {"G": groups, "n": len(y), "g": g + 1, "x": x, "y": y}


# --- draws ----------------------------------------------------------------------------------------


def log_density(parts, z):
    """Logarithm of the density of the hubs, up to a constant; -inf where Q is not definite."""
    found = []
    for first in range(0, len(z), BATCH):
        precision, b, c = parts(z[first : first + BATCH])
        sign, logarithm = np.linalg.slogdet(precision)
        mean = np.linalg.solve(precision, b[..., None])[..., 0]
        value = c + 0.5 * np.sum(b * mean, axis=1) - 0.5 * logarithm
        found.append(np.where(sign > 0, value, -np.inf))
    return np.concatenate(found)


def hubs(parts, low, high, rng):
    """Return places z and weights that represent the density of the hubs."""
    size = len(low)
    z = rng.uniform(low, high, (PROPOSALS, size))
    logs = log_density(parts, z)
    for _ in range(ROUNDS):
        weights = np.exp(logs - logsumexp(logs))
        center = z[rng.choice(len(z), COMPONENTS, p=weights)]
        spread = SPREAD * np.cov(z.T, aweights=weights).reshape(size, size)
        factor = np.linalg.cholesky(spread + 1e-9 * np.eye(size))
        anywhere = rng.random(PROPOSALS) < 0.1
        moved = center[rng.integers(0, COMPONENTS, PROPOSALS)]
        moved = moved + rng.normal(size=(PROPOSALS, size)) @ factor.T
        z = np.where(anywhere[:, None], rng.uniform(low, high, (PROPOSALS, size)), moved)
        z = z[np.all((z > low) & (z < high), axis=1)]
        logs = log_density(parts, z) - _log_mixture(z, center, factor, np.prod(high - low))
    return z, np.exp(logs - logsumexp(logs))


def _log_mixture(z, center, factor, volume):
    scaled = np.linalg.solve(factor, z.T).T
    about = np.linalg.solve(factor, center.T).T
    constant = -0.5 * z.shape[1] * np.log(2.0 * np.pi) - np.log(np.diag(factor)).sum()
    log_parts = np.concatenate([
        logsumexp(-0.5 * ((part[:, None] - about) ** 2).sum(axis=-1), axis=1)
        for part in np.array_split(scaled, max(1, len(scaled) // 2000))
    ])  # fmt: skip
    mixture = log_parts + constant + np.log(0.9 / len(center))
    return np.logaddexp(mixture, np.log(0.1 / volume))


def _draw(parts, bounds, names):
    """Return what draws from a posterior: `names` of (hubs, block) -> draws by name."""

    def draw(rng, n):
        low, high = np.transpose(bounds)
        z, weights = hubs(parts, low, high, rng)
        z = z[rng.choice(len(z), n, p=weights)]
        x = []
        for first in range(0, n, BATCH):
            precision, b, _ = parts(z[first : first + BATCH])
            factor = np.linalg.cholesky(precision)
            right = np.linalg.solve(factor, b[..., None]) + rng.normal(size=(*b.shape, 1))
            x.append(np.linalg.solve(np.swapaxes(factor, 1, 2), right)[..., 0])
        return names(z, np.concatenate(x))

    return draw


def _known(program, built, bounds, names):
    parts, data = built
    return Known("blocks", program, _draw(parts, bounds, names), data)


def _named(*names):
    """Return what gives names to effects, each a column or a vector with a size, and to scales."""
    *effects, scales = names

    def of(z, x):
        found, first = {}, 0
        for name, size in effects:
            found[name] = x[:, first] if size is None else x[:, first : first + size]
            first += size or 1
        return found | dict(zip(scales, np.exp(z).T, strict=True))

    return of


def _of_process(z, x):
    return {"rho": np.tanh(z[:, 0] / 2.0), "s": np.exp(z[:, 1]), "h": x}


def _of_slopes(z, x):
    r, factor = np.tanh(z[:, 2]), np.zeros((len(z), 2, 2))
    factor[:, 0, 0], factor[:, 1, 0], factor[:, 1, 1] = 1.0, r, np.sqrt(1.0 - r**2)
    effects = {"mu": x[:, :2], "b": x[:, 2:].reshape(len(x), -1, 2)}
    return effects | {"tau": np.exp(z[:, :2]), "L": factor, "s": np.exp(z[:, 3])}


def _levels():
    """White noise of three lengths, and a random walk that is observed without error."""
    rng = np.random.default_rng(59)
    series = {f"level_{n}": np.random.default_rng(100 + n).normal(size=n) for n in (6, 12, 25)}
    series["walk"] = np.cumsum(rng.normal(size=40))
    for name, y in series.items():
        names = _named(("u", len(y)), ("s_u", "s_x"))
        yield name, _known(LEVEL, _level(y), [SCALE + np.log(y.std())] * 2, names)


def _process_data(rng, n=30):
    h = [rng.normal() / np.sqrt(1.0 - 0.8**2)]
    for _ in range(n - 1):
        h.append(0.8 * h[-1] + rng.normal())
    return np.array(h) + rng.normal(size=n)


# bounds of logarithms of scales, and of the unconstrained autocorrelation
SCALE, NARROW, LOGIT = (np.array(ends) for ends in ((-14.0, 4.0), (-9.0, 3.0), (-12.0, 12.0)))
BLOCKS = dict(_levels()) | {
    "process": _known(
        PROCESS, _process(_process_data(np.random.default_rng(3))), [LOGIT, SCALE], _of_process
    ),
    "areas": _known(
        AREAS, _areas(np.random.default_rng(7)), [SCALE] * 2,
        _named(("mu", None), ("x", 25), ("tau", "s")),
    ),
    "crossed": _known(
        CROSSED, _crossed(np.random.default_rng(5)), [SCALE] * 3,
        _named(("mu", None), ("a", 12), ("b", 20), ("s_a", "s_b", "s")),
    ),
    "slopes": _known(
        SLOPES, _slopes(np.random.default_rng(8)), [NARROW, NARROW, LOGIT / 3.0, NARROW], _of_slopes
    ),
    "amplitude": _known(
        AMPLITUDE, _amplitude(np.random.default_rng(4)), [SCALE] * 2, _named(("f", 25), ("a", "s"))
    ),
    "exchanged": _known(
        EXCHANGED, _exchanged(np.random.default_rng(9)), [SCALE] * 2,
        _named(("mu", None), ("x", 10), ("s_u", "s_x")),
    ),
}  # fmt: skip
