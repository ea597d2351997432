"""Compile samplers ahead of their use, for images, clusters and the first minutes of a course.

Each sampler runs briefly, as `sample` would run it, on a small program of our own in the embedded
backend: no C++ compiler is needed. What is compiled depends on the sampler and on the processor,
but neither on the program and its data nor on settings, which compiled code reads as data. All of
it is kept in the cache.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from stanadapt.engine.chain import compiled_functions
from stanadapt.engine.compilation_progress import compiling
from stanadapt.engine.compiled.cache_folder import cache_root, is_temporary
from stanadapt.engine.compiled.machine_code import MachineCode, own_folder
from stanadapt.engine.compiled.on_demand import POINTERS
from stanadapt.engine.protocol import KEEP_GRADIENT, Sampler
from stanadapt.engine.registry import find, registered
from stanadapt.engine.starts import START_OPTIONS
from stanadapt.errors import StanadaptError
from stanadapt.runs.coordinates import NO, STRAIGHTEN, WITH_GRADIENTS, WITHOUT
from stanadapt.runs.sample import sample
from stanadapt.samplers.variational.methods import PATHFINDER
from stanadapt.targets.target import Target

# unequal scales, a dependence, a funnel and generated quantities
PROGRAM = """
parameters { vector[3] x; real<lower=0> s; real t; vector[2] y; }
model {
  x ~ normal([1, -20, 0], [1e-3, 50, 2]);
  s ~ gamma(3, x[3]^2 + 1);
  t ~ normal(0, 3);
  y ~ normal(0, exp(t / 2));
}
generated quantities { real z = normal_rng(x[1], s); }
"""
# from 301 parameters on, other code runs
MANY = "parameters { vector[301] x; } model { x ~ std_normal(); }"
LENGTHS: dict[str, Any] = {"chains": 2, "iter_warmup": 400, "iter_sampling": 20}


class Compiled(NamedTuple):
    """What it took to have a sampler in the cache."""

    sampler: str  # its name
    functions: int  # number of functions that were compiled; 0 if all were in the cache
    seconds: float  # seconds by the clock


def compile_ahead(
    names: Sequence[str] = (),
    show_progress: bool = True,
    run: Callable[[Target, Sampler], None] | None = None,
) -> Iterator[Compiled]:
    """Compile samplers into the cache, one after the other.

    Parameters
    ----------
    names : sequence of str
        Names of samplers; without any, all of them.
    show_progress : bool
        Whether to show the progress of compilation.
    run : function, optional
        Runs a sampler on a target in all ways that compile something else; default: `run_briefly`.

    Yields
    ------
    Compiled
        When a sampler is in the cache.

    Raises
    ------
    StanadaptError
        "unknown_sampler", before anything is compiled; "cache_not_writable".

    Examples
    --------
    >>> from stanadapt.studies.compile_ahead import compile_ahead
    >>> for done in compile_ahead(["rwm"], show_progress=False):
    ...     print(done.sampler)
    rwm
    """
    found = [find(name)[0] for name in dict.fromkeys(names or registered())]
    _require_kept()
    target = Target(PROGRAM, backend="stanli", show_progress=False)
    for number, sampler in enumerate(found, 1):
        what = f"{sampler.name}, sampler {number} of {len(found)}"
        with (
            compiling(show_progress, what, _functions(sampler)) as compilation,
            _of_the_cache_only(),
        ):
            (run or run_briefly)(target, sampler)
        _require_kept()
        yield Compiled(sampler.name, len(compilation.compiled), compilation.seconds)


def run_briefly(target: Target, sampler: Sampler) -> None:
    """Draw in all ways that make a difference to compiled code."""
    draw = partial(sample, target, sampler.name, seed=1, show_progress=False, **LENGTHS)
    fit = draw()
    draw(inits=PATHFINDER)
    if sampler.uses_gradient:
        if not sampler.learns_scales:
            draw(standardize=STRAIGHTEN)
        for pointer in POINTERS:
            pointer.compile()
        if sampler.learns_scales or sampler.standardize != NO:
            many = Target(MANY, backend="stanli", show_progress=False)
            sample(many, sampler.name, seed=1, show_progress=False, **LENGTHS)
    if sampler.init_from_draws is not None:
        draw(warm_start=fit)
    if sampler.threading is not None:
        draw(threads_per_chain=2)
    if sampler.extra_output is not None:
        kept = "gradient" if sampler.extra_output is KEEP_GRADIENT else "pseudo"
        draw(save=kept, standardize=False)
    for keyword, option in START_OPTIONS.items():
        if option.trial is not None and option.used_by(sampler):
            draw(**{keyword: option.trial(target)})


@contextlib.contextmanager
def _of_the_cache_only() -> Iterator[None]:
    """Let only warnings about the cache pass: short runs are not fine, and need not be."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for each in caught:
        if getattr(each.message, "code", "") in ("code_not_kept", "shared_cache_not_used"):
            warnings.warn_explicit(cast(Warning, each.message), None, each.filename, each.lineno)


def _functions(sampler: Sampler) -> list[Callable]:
    """Return the functions that Python calls: of the sampler, and of the one that learns scales."""
    if sampler.standardize == NO:
        return list(compiled_functions(sampler))
    learner, _ = find(WITH_GRADIENTS if sampler.uses_gradient else WITHOUT)
    return [*compiled_functions(sampler), *compiled_functions(learner)]


def _require_kept() -> None:
    """Raise StanadaptError if compiled code is lost with this process."""
    if is_temporary(own_folder()) or MachineCode.not_kept:
        raise StanadaptError(
            "cache_not_writable",
            f"compiled code is kept in {cache_root()}, which cannot be written to or is full. Free "
            "some space, or set the environment variable STANADAPT_CACHE to another folder.",
        )
