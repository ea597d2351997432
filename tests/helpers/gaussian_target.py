"""Independent Gaussians of any dimension, and chains on them from given starts.

An infinite standard deviation makes a coordinate flat, and the density improper.
"""

from typing import ClassVar

import numpy as np
from numba import carray

from stanadapt.engine.chain import Chain, ChainDesign, run
from stanadapt.engine.checks import copy_draws
from stanadapt.engine.compiled.jit import c_function
from stanadapt.engine.density import GRADIENT_SIGNATURE, VALUE_SIGNATURE, make_density
from stanadapt.engine.plan import make_plan
from stanadapt.samplers import find


@c_function(VALUE_SIGNATURE)
def _value(handle, propto, jacobian, position, value, message):
    n = int(carray(handle, 1, np.float64)[0])
    known, x, out = carray(handle, 1 + 2 * n, np.float64), carray(position, n), carray(value, 1)
    total = 0.0
    for i in range(n):
        z = (x[i] - known[1 + i]) / known[1 + n + i]
        total -= 0.5 * z * z
    out[0] = total
    return 0


@c_function(GRADIENT_SIGNATURE)
def _gradient(handle, propto, jacobian, position, value, gradient, message):
    n = int(carray(handle, 1, np.float64)[0])
    known, x, out = carray(handle, 1 + 2 * n, np.float64), carray(position, n), carray(value, 1)
    slope, total = carray(gradient, n), 0.0
    for i in range(n):
        sd = known[1 + n + i]
        z = (x[i] - known[1 + i]) / sd
        total -= 0.5 * z * z
        slope[i] = -z / sd
    out[0] = total
    return 0


class Gaussian:
    """A target with independent coordinates; mean and sd have shape (dim,)."""

    _kept: ClassVar[list] = []  # densities hold an address only

    def __init__(self, mean, sd):
        self.mean, self.sd = np.asarray(mean, float), np.asarray(sd, float)
        self.dim = len(self.sd)
        self.memory = np.concatenate([[self.dim], self.mean, self.sd])
        self._kept.append(self.memory)

    def density(self):
        """Make a density with its own counters."""
        return make_density(_value.address, _gradient.address, self.memory.ctypes.data, self.dim)


def make_chains_at(
    target, starts, sampler="whitened_hmc", warmup=2000, draws=1000, seed=1, init=None, **chosen
):
    """Return one chain per start, shape (chain, dim), ready to run; `init` may be another."""
    found, settings = find(sampler, **chosen)
    plan = make_plan(
        chains=len(starts), parallel_chains=None, iter_warmup=warmup, iter_sampling=draws, thin=1,
        seed=seed, save_warmup=True, show_progress=False,
    )  # fmt: skip
    design = ChainDesign(found, settings, plan, starts.shape[1], init=init)
    rngs = [np.random.default_rng(source) for source in plan.seeds()]
    return [
        Chain(design, target.density(), start, rng, lambda _: copy_draws)
        for start, rng in zip(np.asarray(starts, float), rngs, strict=True)
    ]


def drawn(target, begin, threads=2, chunk=None, **options):
    """Return chains of `make_chains_at` that have run to their end."""
    chains = make_chains_at(target, begin, **options)
    assert run(chains, threads, chunk=chunk) is False
    return chains


def draws_of(chains):
    """Return the draws of all chains, shape (chain, draw, dim)."""
    return np.stack([chain.sampling.constrained for chain in chains])


def every_draw(chains):
    """Return the draws of warm-up and sampling of all chains, shape (chain, iteration, dim)."""
    return np.stack(
        [np.concatenate([c.warmup.constrained, c.sampling.constrained]) for c in chains]
    )
