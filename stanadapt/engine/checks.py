"""Check a sampler, of the package or of a user's own, against what every sampler must do.

A density on which samplers are checked: asymmetric, unequally scaled, correlated, with a wall.

x[0] is the log of a gamma(SHAPE) variable; x[1] and x[2] are normal with standard deviations SCALES
and correlation RHO. Beyond a wall in x[0] the density fails, as that of a program that throws. All
moments are known. It is two C functions with BridgeStan's signatures, so that no program is needed.

What every sampler must do, checked on the awkward target: one function for each promise.

Each takes a Case and returns a sentence on what is wrong, or nothing. `check_sampler` reports them
to authors, and the tests of the package run them over its own samplers.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numba import carray
from numba.core.runtime import _nrt_python, rtsys  # type: ignore[attr-defined]
from rich.console import Console
from rich.table import Table
from scipy import stats
from scipy.special import digamma, polygamma

from stanadapt.engine.chain import Chain, ChainDesign, advance_together, run
from stanadapt.engine.compile_errors import explained
from stanadapt.engine.compiled.jit import c_function, jit
from stanadapt.engine.density import (
    FAILED_CALLS,
    GRADIENT_CALLS,
    GRADIENT_SIGNATURE,
    VALUE_CALLS,
    VALUE_SIGNATURE,
    Density,
    make_density,
)
from stanadapt.engine.plan import make_plan
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.registry import find

SHAPE, SCALES, RHO = 2.0, np.array([0.3, 4.0]), 0.7
MEAN = np.array([digamma(SHAPE), 1.0, -2.0])
SD = np.array([np.sqrt(polygamma(1, SHAPE)), *SCALES])
DIM = 3


@jit
def _log_density(x, wall, out):
    """Fill out[0]; return the code, not zero beyond the wall."""
    if x[0] > wall:
        return -1
    a, b = (x[1] - 1.0) / 0.3, (x[2] + 2.0) / 4.0
    out[0] = 2.0 * x[0] - np.exp(x[0]) - 0.5 / 0.51 * (a * a - 1.4 * a * b + b * b)
    return 0


# -1 unless the flags arrive as they should
@c_function(VALUE_SIGNATURE)
def _value(wall, propto, jacobian, position, value, message):
    if propto != 1 or jacobian != 1:
        return -1
    return _log_density(carray(position, 3), carray(wall, 1, np.float64)[0], carray(value, 1))


@c_function(GRADIENT_SIGNATURE)
def _gradient(wall, propto, jacobian, position, value, gradient, message):
    if propto != 1 or jacobian != 1:
        return -1
    x, g = carray(position, 3), carray(gradient, 3)
    a, b = (x[1] - 1.0) / 0.3, (x[2] + 2.0) / 4.0
    g[0] = 2.0 - np.exp(x[0])
    g[1] = -(a - 0.7 * b) / 0.51 / 0.3
    g[2] = -(b - 0.7 * a) / 0.51 / 4.0
    return _log_density(x, carray(wall, 1, np.float64)[0], carray(value, 1))


class Awkward:
    """The target with its wall, which is never freed: densities hold its address only."""

    _walls: ClassVar[list] = []

    def __init__(self, wall: float = np.inf) -> None:
        self.wall = np.array([wall])
        self._walls.append(self.wall)

    def density(self) -> Density:
        """Make a density with its own counters."""
        return make_density(_value.address, _gradient.address, self.wall.ctypes.data, DIM)


def starts(chains: int, seed: int) -> np.ndarray:
    """Draw positions near the target's mass, shape (chain, 3)."""
    return MEAN + SD * np.random.default_rng(seed).standard_normal((chains, DIM))


# of a right sampler failing the check of moments: Student t, six comparisons
FALSE_ALARM = 1e-4
# a Monte Carlo error above this share of the truth leaves that check without power
LARGEST_ERROR = 0.15
CHAINS, WARMUP, DRAWS = 40, 2000, 4000
WALL, BEFORE_WALL = 0.2, np.array([-1.0, 1.0, -2.0])


class Case(NamedTuple):
    """A sampler and the settings that are checked."""

    name: Any
    settings: dict[str, Any]


class Length(NamedTuple):
    """Chains, and iterations of each."""

    chains: int = 1
    warmup: int = 200
    draws: int = 300
    thin: int = 1


def copy_draws(positions: np.ndarray, out: np.ndarray) -> int:
    """Stand in for the transforms of a program: there are none."""
    out[:] = positions
    return 0


def make_chains(case: Case, target: Awkward, length: Length, seed: int = 1) -> list[Chain]:
    """Return chains of a case on the awkward target, ready to run."""
    sampler, settings = find(case[0], **case[1])
    plan = make_plan(
        chains=length.chains, parallel_chains=None, iter_warmup=length.warmup,
        iter_sampling=length.draws, thin=length.thin, seed=seed, save_warmup=True,
        show_progress=False,
    )  # fmt: skip
    design = ChainDesign(sampler, settings, plan, DIM)
    rngs = [np.random.default_rng(source) for source in plan.seeds()]
    return [
        Chain(design, target.density(), start, rng, lambda: copy_draws)
        for start, rng in zip(starts(length.chains, seed), rngs, strict=True)
    ]


def _finished(chains: list[Chain], parallel: int = 2, chunk: int | None = None) -> list[Chain]:
    run(chains, parallel, chunk=chunk)
    return chains


def invariance(case: Case) -> str:
    """Means and variances of many chains agree with the known ones, within Monte Carlo error."""
    chains = _finished(make_chains(case, Awkward(), Length(CHAINS, WARMUP, DRAWS)))
    stopped = sum(chain.stopped for chain in chains)
    if stopped:
        return f"{stopped} of {CHAINS} chains were stopped: every evaluation failed"
    draws = np.stack([chain.sampling.constrained for chain in chains])
    bound = stats.t.isf(FALSE_ALARM / 12, CHAINS - 1)
    for power, truth, what in ((1, 0.0 * SD, "mean"), (2, SD**2, "variance")):
        per_chain = ((draws - MEAN) ** power).mean(axis=1)
        error = per_chain.std(axis=0, ddof=1) / np.sqrt(CHAINS)
        surprise = np.abs(per_chain.mean(axis=0) - truth) / np.maximum(error, 1e-300)
        if not np.all(surprise < bound):
            i = int(np.nanargmax(surprise)) if np.isfinite(surprise).any() else 0
            return (
                f"the {what} of coordinate {i + 1} is {surprise[i]:.1f} standard errors from the "
                f"truth (bound {bound:.1f}): the target is not left invariant, or chains do not mix"
            )
        if not np.all(error < LARGEST_ERROR * SD**power):
            return (
                f"chains of {WARMUP} + {DRAWS} iterations mix too slowly for their {what} to be "
                "checked: tune faster, or start with a better step size"
            )
    return ""


def same_bits(case: Case) -> str:
    """Draws depend neither on the number of threads nor on how iterations are chunked."""
    found = []
    for parallel, chunk in ((1, 7), (2, 10**6), (2, None)):
        chains = _finished(make_chains(case, Awkward(), Length(2)), parallel, chunk)
        found.append(
            [(c.warmup.constrained, c.sampling.constrained, c.sampling.stats) for c in chains]
        )
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            if not all(np.array_equal(a, b) for a, b in zip(one, two, strict=True)):
                return (
                    "draws differ with the number of threads or the size of chunks: something is "
                    "kept outside State, or drawn without `rng`"
                )
    return ""


def own_randomness(case: Case) -> str:
    """Two chains from one position differ, since each has an `rng` of its own."""
    one, two = make_chains(case, Awkward(), Length(2))
    position = one.state.current.position.copy()
    two.state = two.sampler.init(two.density, two.compiled_settings, position, two.rng)
    _finished([one, two])
    if np.array_equal(one.sampling.constrained, two.sampling.constrained):
        return "two chains from one position have the same draws: `rng` is not used"
    return ""


def failures_are_rejections(case: Case) -> str:
    """Where the density fails, no draw is kept, and the chain goes on."""
    (chain,) = make_chains(case, Awkward(WALL), Length(1, 300, 700))
    chain.state = chain.sampler.init(
        chain.density, chain.compiled_settings, BEFORE_WALL, chain.rng
    )  # fmt: skip
    _finished([chain])
    draws = chain.sampling.constrained[: chain.sampling.rows]
    if chain.density.calls[FAILED_CALLS] == 0:
        return "no evaluation met the wall: the chain hardly moves"
    if not len(draws) or draws[:, 0].max() > WALL:
        return "a draw lies where the density fails: log density -inf must be a rejection"
    if not np.isfinite(chain.sampling.stats[: chain.sampling.rows]).all():
        return "a field of Info is not finite after a failed evaluation"
    if not np.ptp(draws, axis=0).all():
        return "the chain no longer moves after failed evaluations"
    return ""


def frozen_after_warmup(case: Case) -> str:
    """No array or number of State changes after warm-up, but the points and the workspace."""
    (chain,) = make_chains(case, Awkward(), Length())
    while chain.warming_up:
        advance_together([chain], 50)
    before = dict(tuning(chain))
    _finished([chain])
    changed = [n for n, value in tuning(chain) if not np.array_equal(before[n], value)]
    if chain.sampler.adapts_forever:
        return "" if changed else "adapts_forever is set, but nothing changes after warm-up"
    if changed:
        return (
            f"State.{', State.'.join(changed)} changed after warm-up: adapt only in `adapt`, or "
            "name what is rewritten in every step in `workspace`"
        )
    return ""


def tuning(chain: Chain) -> Iterator[tuple[str, np.ndarray]]:
    """Yield name and copy of what State holds beside points and workspace, names dotted."""
    skipped = {"current", "scratch", *chain.sampler.workspace}
    for name, value in chain.state._asdict().items():
        yield from _leaves(name, value, skipped)


def _leaves(name: str, value: Any, skipped: set[str]) -> Iterator[tuple[str, np.ndarray]]:
    if name in skipped:
        return
    if hasattr(value, "_asdict"):
        for field, part in value._asdict().items():
            yield from _leaves(f"{name}.{field}", part, skipped)
    else:
        yield name, np.array(value)


def declared_evaluations(case: Case) -> str:
    """Only the kind of evaluation that `uses_gradient` declares is made."""
    (chain,) = _finished(make_chains(case, Awkward(), Length()))
    unused = VALUE_CALLS if chain.sampler.uses_gradient else GRADIENT_CALLS
    if chain.density.calls[unused]:
        what = "values" if chain.sampler.uses_gradient else "gradients"
        return f"uses_gradient is {chain.sampler.uses_gradient}, but {what} are evaluated"
    return ""


def no_allocation(case: Case) -> str:
    """A step allocates nothing: memory does not depend on the number of iterations."""
    counts = []
    _nrt_python.memsys_enable_stats()
    try:
        for iterations in (100, 1100):
            (chain,) = make_chains(case, Awkward(), Length(1, 0, 2 * iterations))
            chain.advance(1)
            before = rtsys.get_allocation_stats().alloc
            chain.advance(iterations)
            counts.append(rtsys.get_allocation_stats().alloc - before)
    finally:
        _nrt_python.memsys_disable_stats()
    each = (counts[1] - counts[0]) / 1000
    if each > 0.01:
        return f"a step makes {each:.1f} allocations on average: keep workspace in State"
    return ""


INVARIANCE = "leaves the target invariant"
CHECKS: dict[str, Callable[[Case], str]] = {
    INVARIANCE: invariance,
    "same draws for any threads and chunks": same_bits,
    "takes its randomness from rng": own_randomness,
    "failed evaluations are rejections": failures_are_rejections,
    "frozen after warm-up": frozen_after_warmup,
    "evaluates what it declares": declared_evaluations,
    "a step allocates nothing": no_allocation,
}


def checks_of(sampler: Sampler) -> dict[str, Callable[[Case], str]]:
    """What a sampler is held to: a sampler that declares itself not exact to all but invariance."""
    return {name: check for name, check in CHECKS.items() if sampler.exact or name != INVARIANCE}


def check_sampler(sampler: Any, *, show: bool = True, **settings: Any) -> pd.DataFrame:
    """Run the tests that every sampler of the package passes, and report them.

    A correct sampler fails one of them by chance once in ten thousand times. One that declares
    itself not exact (`Sampler.exact`) need not leave the target invariant: that is not checked.

    Parameters
    ----------
    sampler
        Name of a registered sampler, or an instance of its `Settings`.
    show
        Also print the report.
    settings
        The sampler's own, by name. Give those with which it tunes within 2000 iterations.

    Returns
    -------
    pandas.DataFrame
        A row per check, with columns `passed` and `problem`, a sentence that is empty where it
        passed.

    Raises
    ------
    StanadaptError
        Stage "settings" for a sampler that is not registered, "sampler" for one that does not
        compile.

    """
    from stanadapt.engine.checks import Case, checks_of

    found, chosen = find(sampler, **settings)
    with explained(found):
        problems = {name: check(Case(chosen, {})) for name, check in checks_of(found).items()}
    report = pd.DataFrame(
        {"passed": [not p for p in problems.values()], "problem": list(problems.values())},
        index=pd.Index(problems, name="check"),
    )
    if show:
        _show(found.name if found.exact else f"{found.name} (not exact)", report)
    return report


def _show(name: str, report: pd.DataFrame) -> None:
    table = Table("check", "result", box=None, header_style="bold", title=f"sampler {name}")
    for check, row in report.iterrows():
        table.add_row(str(check), "passed" if row["passed"] else f"FAILED: {row['problem']}")
    Console().print(table)
