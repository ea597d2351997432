"""The cost of an iteration of gad_mala, compared with its gradient and its two products with L.

Times are the least of many calls from Python, since other processes can only add to a time. The
call itself takes some ten microseconds, which are part of the numbers.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import stanadapt as sa
from stanadapt.engine.density import value_and_gradient
from stanadapt.samplers import find
from stanadapt.samplers.gad import proposal_factor

CALLS = 300


class Cost(NamedTuple):
    """Microseconds of a gradient; of L x and L^T x; of an iteration; of the climb in warm-up."""

    gradient: float
    products: float
    iteration: float
    climb: float

    @property
    def ratio(self) -> float:
        """An iteration without its gradient, in units of the two products."""
        return (self.iteration - self.gradient) / self.products

    def __str__(self) -> str:
        """Return the costs in words."""
        return (
            f"{self.iteration:.0f} microseconds per iteration, {self.gradient:.0f} of them for the "
            f"gradient; the rest is {self.ratio:.1f} times the two products with L, which take "
            f"{self.products:.0f}. A climb in warm-up adds {self.climb:.0f}."
        )


def measure(target: sa.Target, position: np.ndarray, **settings: Any) -> Cost:
    """Measure gad_mala at a position, shape (dim,)."""
    sampler, typed = find("gad_mala", **settings)
    density, rng = target.density(), np.random.default_rng(1)
    state = sampler.init(density, typed, position, rng)
    factor, out = state.tuning.factor, np.empty(target.dim)

    def products() -> None:
        proposal_factor.times(factor, position, out)
        proposal_factor.transposed_times(factor, position, out)

    info = None
    # after a proposal of a higher density L climbs by its entropy alone, which is cheaper
    while info is None or not state.log_ratio < 0.0:
        state, info = sampler.step(density, typed, state, rng)
    return Cost(
        _least(lambda: value_and_gradient(density, position, out)),
        _least(products),
        _least(lambda: sampler.step(density, typed, state, rng)),
        _least(lambda: sampler.adapt(density, typed, state, info, 0, 2)),
    )


def _least(call: Callable[[], Any]) -> float:
    call()
    seconds = []
    for _ in range(CALLS):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return 1e6 * min(seconds)
