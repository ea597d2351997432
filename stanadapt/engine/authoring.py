"""The names that the file of a sampler needs, in one import.

    import stanadapt.engine.authoring as sampler_api

A sampler is one Python file; `stanadapt.engine.protocol` has all rules. The smallest sampler has a
`Settings` without fields, a `State` with the current point, an `Info` with the acceptance rate, and
three functions. The following one is a random walk with steps of standard deviation 1. Save it as
`unit_walk.py` and `import unit_walk`; `sa.sample(target, "unit_walk")` then compiles and runs it.

    '''Random-walk Metropolis with unit steps.'''

    from typing import NamedTuple

    import stanadapt.engine.authoring as sampler_api
    from stanadapt.engine.authoring import ValuePoint, jit, replace

    class Settings(NamedTuple):
        '''No settings.'''

    class State(NamedTuple):
        '''The current point, and a point to write the next proposal into.'''

        current: ValuePoint
        scratch: ValuePoint

    class Info(NamedTuple):
        '''Statistics of one iteration, under ArviZ names.'''

        acceptance_rate: float

    @jit
    def init(density, settings, position, rng):
        return State(
            current=sampler_api.value_at(density, position),
            scratch=sampler_api.unused_value(density.size),
        )

    @jit
    def step(density, settings, state, rng):
        x, y = state.current, state.scratch
        for i in range(density.dim):
            y.position[i] = x.position[i] + rng.standard_normal()
        y = sampler_api.proposed(density, x, y, rng)
        rate = sampler_api.acceptance_probability(y.log_density - x.log_density)
        info = Info(acceptance_rate=rate)
        if rng.random() < rate:
            return replace(state, current=y, scratch=x), info
        return replace(state, scratch=y), info

    sampler_api.register(__name__, uses_gradient=False)

A sampler with settings, gradients, tuning and a report
-------------------------------------------------------

This is Barker's proposal (Livingstone and Zanella 2022, JRSS B 84), as `barker.py`. Each setting
has a type with a range; `adapt` tunes the step size during warm-up; and `report` adds an attribute
to the result, and a note that is also a warning.

    '''Barker's proposal: gradient-based, and robust to a step size that is too large.'''

    from typing import NamedTuple

    import numpy as np

    import stanadapt.engine.authoring as sampler_api
    from stanadapt.engine.authoring import GradientPoint, Positive, Probability, jit, replace

    class Settings(NamedTuple):
        '''Choices of the user: type, range, default and meaning.'''

        target_accept: Probability = 0.57  # acceptance rate to aim for
        step_size: Positive = 0.5  # its initial value

    class State(NamedTuple):
        '''The current point, a point to write the next proposal into, and the step size.'''

        current: GradientPoint
        scratch: GradientPoint
        step_size: float

    class Info(NamedTuple):
        '''Statistics of one iteration, under ArviZ names.'''

        acceptance_rate: float
        accepted: bool
        step_size: float

    @jit
    def init(density, settings, position, rng):
        return State(
            current=sampler_api.gradient_at(density, position),
            scratch=sampler_api.unused_gradient(density.dim),
            step_size=settings.step_size,
        )

    @jit
    def log_ratio(x, y):
        '''log q(y, x) - log q(x, y): the proposal of a coordinate depends on its slope.'''
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

    def report(view):
        '''Report the step size of each chain, and chains that hardly move.'''
        stats = view.sample_stats
        rate = stats["accepted"].mean()
        notes = []
        if rate < 0.1:
            notes.append(sampler_api.note(
                f"barker accepted {rate:.1%} of its moves. Lengthen warm-up (iter_warmup)."
            ))
        steps = stats["step_size"][:, -1].tolist()
        return sampler_api.Findings(attributes={"final_step_size": steps}, messages=notes)

    sampler_api.register(__name__)

A setting needs one line. Its comment, beside or above it, explains it (for samplers of the package,
`stanadapt samplers NAME` shows it), and a value outside its range is an error: `Positive`,
`NotNegative`, `Probability`, `Fraction` (0 included), `Share` (1 included), `Finite`, `Count` (1,
2, ...), `CountOrZero`, or any other range, `Annotated[int, Between(2, 10, "[]")]`. If two settings
may contradict each other, define `check(settings)`, which raises `setting_error(text)`.

`note` and `setting_error` use codes that all authors share. If other programs have to distinguish
your messages, declare your own codes with `Code(name, kind, meaning, cure)`, and pass them to
`Message` or `StanadaptError`.

`adapt` is compiled, and tunes a chain by itself. To learn with NumPy, or from the draws of all
chains, give a table of stages of warm-up, `warmup=Warmup(...)`; `stanadapt.engine.warmup` has an
example.

`sa.check_sampler("barker")` runs the checks that every sampler of the package passes.
"""

from stanadapt.engine.after_run import Findings, RunView, note
from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import value, value_and_gradient
from stanadapt.engine.numerics.vectors import copy, fill_normal, inner_product, squared_norm
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
from stanadapt.engine.protocol import ExtraOutput, Memory, Sampler, Tempering, Threading
from stanadapt.engine.registry import register
from stanadapt.engine.settings import (
    Between,
    Count,
    CountOrZero,
    Finite,
    Fraction,
    NotNegative,
    Numbers,
    Positive,
    Probability,
    Share,
    setting_error,
)
from stanadapt.engine.warmup import Stage, Warmup, all_left
from stanadapt.errors import Code, Message, StanadaptError

__all__ = [
    "Between", "Code", "Count", "CountOrZero", "ExtraOutput", "Findings", "Finite", "Fraction",
    "GradientPoint", "Memory", "Message", "NotNegative", "Numbers", "Positive", "Probability",
    "RunView", "Sampler", "Share", "Stage", "StanadaptError", "Tempering", "Threading",
    "ValuePoint", "Warmup", "acceptance_probability", "all_left", "copy", "fill_normal",
    "gradient_at", "inline", "inner_product", "jit", "note", "proposed", "register", "replace",
    "setting_error", "squared_norm", "unused_gradient", "unused_value", "value",
    "value_and_gradient", "value_at",
]  # fmt: skip
