"""Fits of a funnel made of independent draws, with programs that name its scale in three ways."""

import numpy as np

import stanadapt as sa
from stanadapt.results.arviz_object import build

MEMBERS, DRAWS = 6, (4, 500)
# the same funnel in v, the log of the members' variance, by parameters of three kinds
KINDS = {
    "log variance": ("real v;", "exp(v / 2)", "v ~ normal(1, 3);", lambda v: v),
    "standard deviation": (
        "real<lower=0> v;", "v", "2 * log(v) ~ normal(1, 3); target += -log(v);",
        lambda v: np.exp(v / 2),
    ),
    "precision": (
        "real<lower=0> v;", "inv_sqrt(v)", "-log(v) ~ normal(1, 3); target += -log(v);",
        lambda v: np.exp(-v),
    ),
}  # fmt: skip


def program(kind="log variance"):
    """Return the text of a program."""
    declared, scale, prior, _ = KINDS[kind]
    return (
        f"parameters {{ {declared} real m; vector[{MEMBERS}] x; }} "
        f"model {{ {prior} m ~ normal(20, 0.1); x ~ normal(m, {scale}); }}"
    )


def target(kind="log variance"):
    """Return its target, embedded."""
    return sa.Target(program(kind), backend="stanli")


def fit(v, kind="log variance", seed=1):
    """A fit of independent draws, given those of v, shape (chain, draw)."""
    rng = np.random.default_rng(seed)
    m = 20.0 + 0.1 * rng.standard_normal(v.shape)
    x = m[..., None] + np.exp(v / 2)[..., None] * rng.standard_normal((*v.shape, MEMBERS))
    posterior = {"v": KINDS[kind][3](v), "m": m, "x": x}
    return foreign(posterior)


def foreign(posterior):
    """A fit that knows its draws, and nothing else."""
    return build({"posterior": posterior}, {})


def exact(seed=2):
    """Return draws of v from its distribution."""
    return 1.0 + 3.0 * np.random.default_rng(seed).standard_normal(DRAWS)
