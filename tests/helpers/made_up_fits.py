"""Fits of made-up draws with everything that a report reads, and fits with typical problems."""

import numpy as np

from stanadapt import results

SHAPE = (4, 250)
ATTRIBUTES = {
    "model": "made_up", "program_hash": "p", "data_hash": "d", "iter_warmup": 100,
    "iter_sampling": 250, "thin": 1, "seed": 1, "sampler": "hmc",
    "settings": '{"target_accept": 0.7, "leapfrogs": 5}', "parameters": '["a", "b", "c"]',
    "warmup_seconds": [0.1] * 4, "sampling_seconds": [0.4] * 4, "compile_seconds": 7.0,
    "n_gradients": 10_000, "n_gradients_warmup": 2000, "n_density": 0, "n_failed": 0,
    "n_failed_quantities": 0, "n_stopped": 0, "interrupted": False,
    "versions": '{"numpy": "2.0"}',
}  # fmt: skip
NUTS = {"sampler": "nuts", "engine": "cmdstan 2.27.0", "engine_independent": True}


def draws(seed, shape=SHAPE):
    """Independent draws of a scalar, a vector of very unequal scales, and a skewed scalar."""
    rng = np.random.default_rng(seed)
    a, wide, narrow, c = rng.normal(size=(4, *shape))
    return {"a": a, "b": np.stack([1000 * wide, narrow / 1000], axis=-1), "c": np.exp(c)}


def statistics(shape=SHAPE, acceptance=0.7):
    return {
        "acceptance_rate": np.full(shape, acceptance),
        "step_size": np.full(shape, 0.3),
        "diverging": np.zeros(shape, dtype=bool),
    }


def fit(seed, seconds=2.0, gradients=10_000, shape=SHAPE, posterior=None, stats=None, **changes):
    """Build a fit; `seconds` is the time of all chains, a fifth of it warm-up."""
    posterior = draws(seed, shape) if posterior is None else posterior
    shape = next(iter(posterior.values())).shape[:2]
    cost = {
        "warmup_seconds": [0.2 * seconds], "sampling_seconds": [0.8 * seconds],
        "n_gradients": gradients, "n_gradients_warmup": gradients // 5,
    }  # fmt: skip
    groups = {"posterior": posterior, "sample_stats": statistics(shape) if stats is None else stats}
    return results.build(groups, {**ATTRIBUTES, **cost, **changes})


def in_another_mode(seed):
    """Chain 3 lies 9 standard deviations away."""
    posterior = draws(seed)
    posterior["a"][2] += 9
    return fit(seed, posterior=posterior)


def frozen(seed):
    """Chain 2 repeats its first draw."""
    posterior = {name: x.copy() for name, x in draws(seed).items()}
    for x in posterior.values():
        x[1] = x[1, :1]
    return fit(seed, posterior=posterior)


def with_large_steps(seed):
    """Repeat each draw twenty-five times, with a low acceptance rate."""
    posterior = {n: np.repeat(x[:, :10], 25, axis=1) for n, x in draws(seed).items()}
    return fit(seed, posterior=posterior, stats=statistics(acceptance=0.02))


def short_and_thinned(seed):
    return fit(seed, shape=(4, 40), thin=10)


def diverging(seed):
    stats = statistics()
    stats["diverging"][:, ::25] = True
    return fit(seed, stats=stats)


PLANTED = {
    "other mode": in_another_mode, "frozen": frozen, "large steps": with_large_steps,
    "thinned": short_and_thinned, "divergent": diverging,
}  # fmt: skip
