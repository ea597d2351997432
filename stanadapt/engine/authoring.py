"""Everything that the file of a sampler needs, in one import.

    import stanadapt.engine.authoring as sampler_api

A sampler is one Python file; `protocol` has the rules in full. This is Barker's proposal
(Livingstone and Zanella 2022, JRSS B 84), whole: save it as `barker.py`, `import barker`, and
`sa.sample(target, "barker")` compiles and runs it.

    '''Barker's proposal: gradient-based, and robust to a step size that is too large.'''

    from typing import NamedTuple

    import numpy as np

    import stanadapt.engine.authoring as sampler_api
    from stanadapt.engine.authoring import GradientPoint, jit, replace

    class Settings(NamedTuple):
        '''target_accept: acceptance rate to tune to. step_size: the first one, > 0.'''

        target_accept: float = 0.57
        step_size: float = 0.5

    class State(NamedTuple):
        '''The current point, the one to write the next proposal into, and the step size.'''

        current: GradientPoint
        scratch: GradientPoint
        step_size: float

    class Info(NamedTuple):
        '''What one iteration reports, under ArviZ names.'''

        acceptance_rate: float
        accepted: bool
        step_size: float

    def check(settings):
        sampler_api.require_probability(settings, "target_accept")
        sampler_api.require_positive(settings, "step_size")

    @jit
    def init(density, settings, position, rng):
        return State(
            current=sampler_api.gradient_at(density, position),
            scratch=sampler_api.unused_gradient(density.dim),
            step_size=settings.step_size,
        )

    @jit
    def log_ratio(x, y):
        '''log q(y, x) - log q(x, y): each coordinate goes with its slope with that probability.'''
        total = 0.0
        for i in range(x.position.shape[0]):
            z = y.position[i] - x.position[i]
            total += np.log1p(np.exp(-z * x.gradient[i])) - np.log1p(np.exp(z * y.gradient[i]))
        return total

    @jit
    def step(density, settings, state, rng):
        x, y = state.current, state.scratch
        for i in range(density.dim):
            z = state.step_size * rng.standard_normal()
            if rng.random() * (1.0 + np.exp(-z * x.gradient[i])) > 1.0:
                z = -z
            y.position[i] = x.position[i] + z
        log_density = sampler_api.value_and_gradient(density, y.position, y.gradient)
        y = GradientPoint(y.position, log_density, y.gradient)
        rate = sampler_api.acceptance_probability(
            y.log_density - x.log_density + log_ratio(x, y)
        )
        accepted = rng.random() < rate
        info = Info(acceptance_rate=rate, accepted=accepted, step_size=state.step_size)
        if accepted:
            return replace(state, current=y, scratch=x), info
        return replace(state, scratch=y), info

    @jit
    def adapt(density, settings, state, info, t, iter_warmup):
        error = info.acceptance_rate - settings.target_accept
        return replace(state, step_size=state.step_size * np.exp(error / (1.0 + t) ** 0.6))

    sampler_api.register(sampler_api.Sampler(
        settings=Settings, state=State, info=Info, check=check, init=init, step=step, adapt=adapt,
    ))

`sa.check_sampler("barker")` then runs the tests that every sampler of the package passes.

"""

from stanadapt.engine.compiled.jit import inlined, jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.compiled.vectors import copy, fill_normal, inner_product, squared_norm
from stanadapt.engine.density import value, value_and_gradient
from stanadapt.engine.points import (
    GradientPoint,
    ValuePoint,
    acceptance_probability,
    gradient_at,
    proposed,
    unused_gradient,
    unused_value,
    value_at,
)
from stanadapt.engine.protocol import ExtraOutput, Sampler, Tempering, Threading
from stanadapt.engine.registry import (
    register,
    require_at_least,
    require_fraction,
    require_positive,
    require_probability,
    require_share,
)
from stanadapt.errors import StanadaptError

__all__ = [
    "ExtraOutput",
    "GradientPoint",
    "Sampler",
    "StanadaptError",
    "Tempering",
    "Threading",
    "ValuePoint",
    "acceptance_probability",
    "copy",
    "fill_normal",
    "gradient_at",
    "inlined",
    "inner_product",
    "jit",
    "proposed",
    "register",
    "replace",
    "require_at_least",
    "require_fraction",
    "require_positive",
    "require_probability",
    "require_share",
    "squared_norm",
    "unused_gradient",
    "unused_value",
    "value",
    "value_and_gradient",
    "value_at",
]
