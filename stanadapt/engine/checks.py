"""Checks that every sampler must pass, and the target on which they are made.

`check_sampler` runs the checks and reports them to authors; the tests of the package run the same
checks over its own samplers. A check is a function of a `Case`, a sampler with settings. It returns
a `Message` if the sampler fails, and an empty string otherwise.

The target is awkward: asymmetric, unequally scaled, correlated, and with a wall. x[0] is the log of
a gamma(SHAPE) variable; x[1] and x[2] are normal with standard deviations SCALES and correlation
RHO. Beyond a wall in x[0] the density fails, as that of a program that throws does. All moments are
known. The target is two C functions with BridgeStan's signatures, so that no program is needed.
"""

import html
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numba import carray
from numba.core.errors import NumbaError
from numba.core.runtime import _nrt_python, rtsys  # type: ignore[attr-defined]
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
from stanadapt.errors import Message, StanadaptError, codes_of


def check_sampler(sampler: Any, **settings: Any) -> "CheckReport":
    """Run the checks that every sampler of the package passes.

    By chance, a correct sampler fails one of them about once in ten thousand calls. A sampler that
    declares that it is not exact (`Sampler.exact`) is not checked for invariance.

    Parameters
    ----------
    sampler : str or tuple
        Name of a registered sampler, or an instance of its `Settings`.
    **settings : float, int, bool or str
        Settings of the sampler, by name. It must be able to tune within 2000 iterations.

    Returns
    -------
    CheckReport
        The result of each check: a table at a prompt and in a notebook.

    Raises
    ------
    StanadaptError
        Stage "settings" for a sampler that is not registered, "sampler" for one that does not
        compile.

    Examples
    --------
    >>> import stanadapt as sa
    >>> report = sa.check_sampler("rwm", target_accept=0.3)
    >>> report.passed
    True
    """
    entry, values = find(sampler, **settings)
    return reported(entry, values, checks_of(entry))


def reported(entry: Sampler, settings: Any, checks: Mapping[str, "Check"]) -> "CheckReport":
    """Make checks of a sampler, and report them."""
    case = Case(settings, {})
    with explained(entry):
        results = {name: _result(check, case) for name, check in checks.items()}
    return CheckReport(entry.name, bool(entry.exact), results)


def _result(check: "Check", case: "Case") -> str:
    """Return the result of a check; an error counts as a fault, and the other checks continue.

    A sampler that does not compile, or does not fit into memory, ends the report with its error.
    """
    try:
        return check(case)
    except (NumbaError, MemoryError):
        raise
    except StanadaptError as error:
        if error.code == "sampler_not_compiled":
            raise
        return Message(error.code, error.message)
    except Exception as error:
        return Message("sampler_raised", f"the check ended with {type(error).__name__}: {error}")


@dataclass(frozen=True, repr=False)
class CheckReport:
    """Results of the checks of a sampler.

    Attributes
    ----------
    sampler : str
        Name of the sampler.
    exact : bool
        Whether the sampler declares that it leaves its target invariant, and was checked for it.
    problems : dict
        For each check, by name, a `Message` that describes the fault; "" if the sampler passed.
    """

    sampler: str
    exact: bool
    problems: dict[str, str]

    @property
    def passed(self) -> bool:
        """Whether the sampler passed all checks."""
        return not any(self.problems.values())

    @property
    def table(self) -> pd.DataFrame:
        """The results as a table: a row per check, columns `passed`, `code` and `problem`."""
        problems = list(self.problems.values())
        columns = {
            "passed": [not problem for problem in problems],
            "code": codes_of(problems),
            "problem": [str(problem) for problem in problems],
        }
        return pd.DataFrame(columns, index=pd.Index(self.problems, name="check"))

    @property
    def _title(self) -> str:
        count = sum(not problem for problem in self.problems.values())
        note = "" if self.exact else " (not exact)"
        return f"sampler {self.sampler}{note}: {count} of {len(self.problems)} checks passed"

    def _lines(self) -> Iterator[tuple[str, str]]:
        for name, problem in self.problems.items():
            code = "".join(codes_of([problem]))
            yield name, f"FAILED: {problem} [{code}]" if problem else "passed"

    def __repr__(self) -> str:
        width = max(map(len, self.problems), default=0)
        return "\n".join([self._title, *(f"  {n:<{width}}  {text}" for n, text in self._lines())])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>"
            for name, text in self._lines()
        )
        return f"<table><caption>{html.escape(self._title)}</caption>{rows}</table>"


# --- the awkward target ---------------------------------------------------------------------------

SHAPE, SCALES, RHO = 2.0, np.array([0.3, 4.0]), 0.7
MEAN = np.array([digamma(SHAPE), 1.0, -2.0])
SD = np.array([np.sqrt(polygamma(1, SHAPE)), *SCALES])
DIM = 3


@jit
def _log_density(x, wall, out):
    """Write the log density to out[0]; return 0, or -1 beyond the wall."""
    if x[0] > wall:
        return -1
    a, b = (x[1] - 1.0) / 0.3, (x[2] + 2.0) / 4.0
    out[0] = 2.0 * x[0] - np.exp(x[0]) - 0.5 / 0.51 * (a * a - 1.4 * a * b + b * b)
    return 0


# the flags propto and jacobian must arrive as 1
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
    """The awkward target, with a wall at x[0] = `wall`.

    The wall is never freed, since a density holds only its address.
    """

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


# --- chains on it ---------------------------------------------------------------------------------


class Case(NamedTuple):
    """A sampler, by name or by its settings, and further settings by name."""

    name: Any
    settings: dict[str, Any]


class Length(NamedTuple):
    """The number of chains, and the iterations of each."""

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
        Chain(design, target.density(), start, rng, lambda _: copy_draws)
        for start, rng in zip(starts(length.chains, seed), rngs, strict=True)
    ]


def _finish(chains: list[Chain], parallel: int = 2, chunk: int | None = None) -> list[Chain]:
    run(chains, parallel, chunk=chunk)
    return chains


# --- the checks -----------------------------------------------------------------------------------

# probability that a correct sampler fails the check of moments: Student t, six comparisons
FALSE_ALARM = 1e-4
# a Monte Carlo error above this share of the true value leaves that check without power
LARGEST_ERROR = 0.15
CHAINS, WARMUP, DRAWS = 40, 2000, 4000
ZERO = "steps have become 0, such as scales that `adapt` learns from a chain before it has moved"
WALL, BEFORE_WALL = 0.2, np.array([-1.0, 1.0, -2.0])


def invariance(case: Case) -> str:
    """Means and variances of many chains agree with the true ones, within Monte Carlo error."""
    chains = _finish(make_chains(case, Awkward(), Length(CHAINS, WARMUP, DRAWS)))
    stopped = sum(chain.stopped for chain in chains)
    if stopped:
        text = f"{stopped} of {CHAINS} chains were stopped: every evaluation failed"
        return Message("failures_not_rejected", text)
    draws = np.stack([chain.sampling.constrained for chain in chains])
    # beside others that move, these may leave the moments as they are
    if still := int((np.ptp(draws, axis=1) == 0.0).all(axis=1).sum()):
        text = f"{still} of {CHAINS} chains do not move after warm-up: {DRAWS} draws are the same"
        return Message("chains_do_not_move", text)
    bound = scipy.stats.t.isf(FALSE_ALARM / 12, CHAINS - 1)
    for power, truth, moment in ((1, 0.0 * SD, "mean"), (2, SD**2, "variance")):
        per_chain = ((draws - MEAN) ** power).mean(axis=1)
        error = per_chain.std(axis=0, ddof=1) / np.sqrt(CHAINS)
        surprise = np.abs(per_chain.mean(axis=0) - truth) / np.maximum(error, 1e-300)
        if not np.all(surprise < bound):
            i = int(np.nanargmax(surprise)) if np.isfinite(surprise).any() else 0
            return Message(
                "not_invariant",
                f"the {moment} of coordinate {i + 1} is {surprise[i]:.1f} standard errors from the "
                f"true one (bound {bound:.1f}): the target is not left invariant, or chains do not "
                "mix",
            )
        if not np.all(error < LARGEST_ERROR * SD**power):
            return Message(
                "mixes_too_slowly",
                f"chains of {WARMUP} + {DRAWS} iterations mix too slowly for their {moment} to be "
                "checked: tune faster, or start with a better step size",
            )
    return ""


def same_bits(case: Case) -> str:
    """Draws depend neither on the number of threads nor on how iterations are chunked."""
    runs = []
    for parallel, chunk in ((1, 7), (2, 10**6), (2, None)):
        chains = _finish(make_chains(case, Awkward(), Length(2)), parallel, chunk)
        runs.append(
            [(c.warmup.constrained, c.sampling.constrained, c.sampling.stats) for c in chains]
        )
    for other in runs[1:]:
        for one, two in zip(runs[0], other, strict=True):
            # a number that is not one differs from itself; `finite_statistics` finds these
            same = [np.array_equal(a, b, equal_nan=True) for a, b in zip(one, two, strict=True)]
            if not all(same):
                return Message(
                    "draws_not_reproducible",
                    "draws differ with the number of threads or the size of chunks: something is "
                    "kept outside State, or drawn without `rng`",
                )
    return ""


def finite_statistics(case: Case) -> str:
    """Every field of Info is finite, where no evaluation of the density fails."""
    (chain,) = _finish(make_chains(case, Awkward(), Length()))
    wrong = ~np.isfinite(np.concatenate([chain.warmup.stats, chain.sampling.stats]))
    for name, rows in zip(chain.stat_names, wrong.T, strict=True):
        if rows.any():
            part = "the log density of State.current" if name == "lp" else f"Info.{name}"
            text = (
                f"{part} is not finite in {rows.sum()} of {len(rows)} iterations, first in number "
                f"{rows.argmax() + 1}: give a number in every iteration"
            )
            return Message("statistics_not_finite", text)
    return ""


def own_randomness(case: Case) -> str:
    """Two chains from one position differ, since each has its `rng`."""
    one, two = make_chains(case, Awkward(), Length(2))
    position = one.state.current.position.copy()
    two.state = two.sampler.init(two.density, two.compiled_settings, position, two.rng)
    _finish([one, two])
    draws = np.concatenate([one.sampling.constrained, two.sampling.constrained])
    if np.all(draws == position):
        text = (
            "neither chain moves from its start: `step` returns no proposal, or accepts none, or "
        )
        text += ZERO
        return Message("chains_do_not_move", text)
    if np.array_equal(one.sampling.constrained, two.sampling.constrained):
        text = "two chains with the same start have the same draws: `rng` is not used"
        return Message("draws_not_reproducible", text)
    return ""


def failures_are_rejections(case: Case) -> str:
    """No draw lies where the density fails, and the chain continues."""
    (chain,) = make_chains(case, Awkward(WALL), Length(1, 300, 700))
    chain.state = chain.sampler.init(
        chain.density, chain.compiled_settings, BEFORE_WALL, chain.rng
    )  # fmt: skip
    _finish([chain])
    draws, problem = chain.sampling.constrained[: chain.sampling.rows], ""
    if chain.density.calls[FAILED_CALLS] == 0:
        problem = "no evaluation failed near the wall of the test density: the chain hardly moves"
    elif not len(draws) or draws[:, 0].max() > WALL:
        problem = "at one of the draws the density fails: log density -inf must be a rejection"
    elif not np.isfinite(chain.sampling.stats[: chain.sampling.rows]).all():
        problem = "a field of Info is not finite after a failed evaluation"
    elif not np.ptp(draws, axis=0).all():
        problem = f"the chain no longer moves after failed evaluations, or {ZERO}"
    return Message("failures_not_rejected", problem) if problem else ""


def frozen_after_warmup(case: Case) -> str:
    """No array or number of State changes after warm-up, but the points and the workspace."""
    (chain,) = make_chains(case, Awkward(), Length())
    while chain.warming_up:
        advance_together([chain], 50)
    before = dict(tuning(chain))
    _finish([chain])
    # bit by bit: memory that nothing has been written to may contain NaN
    changed = [n for n, value in tuning(chain) if before[n].tobytes() != value.tobytes()]
    if chain.sampler.adapts_forever:
        text = "adapts_forever is set, but nothing changes after warm-up"
        return "" if changed else Message("changes_after_warmup", text)
    if changed:
        return Message(
            "changes_after_warmup",
            f"State.{', State.'.join(changed)} changed after warm-up: adapt only in `adapt`, or "
            'name the fields that every step rewrites: register(__name__, workspace=("...",))',
        )
    return ""


def tuning(chain: Chain) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the dotted name and a copy of each part of State but points and workspace."""
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
    (chain,) = _finish(make_chains(case, Awkward(), Length()))
    uses_gradient = chain.sampler.uses_gradient
    if chain.density.calls[VALUE_CALLS if uses_gradient else GRADIENT_CALLS]:
        kind = "values" if uses_gradient else "gradients"
        text = f"uses_gradient is {uses_gradient}, but {kind} are evaluated"
        return Message("undeclared_evaluations", text)
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
        text = f"a step makes {each:.1f} allocations on average: keep workspace in State"
        return Message("allocates_memory", text)
    return ""


INVARIANCE = "leaves the target invariant"
Check = Callable[[Case], str]
CHECKS: dict[str, Check] = {
    INVARIANCE: invariance,
    "same draws for any threads and chunks": same_bits,
    "statistics are finite": finite_statistics,
    "takes its randomness from rng": own_randomness,
    "failed evaluations are rejections": failures_are_rejections,
    "frozen after warm-up": frozen_after_warmup,
    "evaluates what it declares": declared_evaluations,
    "a step allocates nothing": no_allocation,
}


def checks_of(sampler: Sampler) -> dict[str, Check]:
    """Return the checks of a sampler: all, but invariance only if it declares that it is exact."""
    return {name: check for name, check in CHECKS.items() if sampler.exact or name != INVARIANCE}
