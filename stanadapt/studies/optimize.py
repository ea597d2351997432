"""The mode of a density, by climbs from several starts, and the curvature there."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import stanio

from stanadapt.diagnostics import printed_tables
from stanadapt.diagnostics.modes import require_climbable
from stanadapt.engine.console import slow_step
from stanadapt.engine.interrupts import in_threads
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.plan import Plan, make_plan
from stanadapt.errors import Message, answers_other_words, require_flag, require_whole
from stanadapt.runs.load import with_run_loaded
from stanadapt.samplers.initial_values import initial_positions, require_inits
from stanadapt.samplers.variational.laplace import FLAT, SHARE, STEPS, Evaluate, apart, falls
from stanadapt.samplers.variational.lbfgs import climb
from stanadapt.targets.constrainer import AFTER_PARAMETERS
from stanadapt.targets.coordinates import element_name
from stanadapt.targets.density_faults import Fault
from stanadapt.targets.stan.syntax import block
from stanadapt.targets.target import Target

HISTORY = 6  # pairs of L-BFGS
SETTLED = 1e-3  # the last Newton step may be so long, relative to 1 + |x|
LARGEST_CURVED = 1000  # parameters; with more, a Hessian of differences takes too long
# of a conditional standard deviation: steps of the differences that check the curvature. Twice the
# step must find the same standard deviations, up to a share
CHECKED_STEP, TOLERATED = 0.02, 0.03
DELTA_STEP = 0.01  # of a standard deviation
FARTHEST = 1e15  # of a position from which a climb does not return
AT_BOUND, LEVEL = 10.0, 1e-6  # least size of a coordinate at a bound, and largest slope there
REPEATS = 50  # of quantities: those that differ are random
RANDOM = re.compile(r"(\w+)\s*(?:\[[^;=]*\])?\s*=(?!=)[^;]*_rng\s*\(")  # the name that gets a draw
BOUND = (
    "The density is highest at a bound of {}, where it has no curvature: the mode is the bound "
    "itself. Use jacobian=True, or sample."
)
RISES = (
    "The density may have no maximum, as that of a hierarchical scale without Jacobian: use "
    "jacobian=True or stronger priors, or sample."
)
SAME = 1e-3  # ends whose log densities differ by less belong to one mode
NAMED = 3
SHOWN = 40  # rows that are printed


class Optimum(printed_tables.PrintedFrame):
    """A mode: a data frame with the columns mode and sd that prints as a table with messages.

    `attrs` has the `log_density` up to a constant, the unconstrained `position`, `jacobian`, the
    log densities at the ends of all climbs (`ends`), and `messages`.
    """

    @property
    def parameters(self) -> dict[str, Any]:
        """The values of the parameters, which `inits` accepts."""
        return self.attrs["parameters"]

    @property
    def _is_complete(self) -> bool:
        return list(self.columns) == ["mode", "sd"]

    def _printed(self) -> printed_tables.Printed:
        head = self.head(SHOWN)
        shown = {
            str(title): ["" if np.isnan(x) else f"{x:.4g}" for x in column]
            for title, column in head.items()
        }
        table = printed_tables.PrintedTable("", [str(name) for name in head.index], shown, {})
        more = [f"{len(self) - SHOWN:,} more rows"] if len(self) > SHOWN else []
        kind = "with" if self.attrs["jacobian"] else "without"
        value = f"log density {self.attrs['log_density']:.6g} (up to a constant), {kind} Jacobian"
        return printed_tables.Printed([table], [*more, value, *self.attrs["messages"]])


@answers_other_words
def optimize(
    target: Target,
    *,
    jacobian: bool = False,
    starts: int = 4,
    seed: int | None = None,
    inits: Any = None,
    max_iterations: int = 2000,
    show_progress: bool = True,
) -> Optimum:
    """Find the mode of the density by L-BFGS and Newton steps from several starts.

    Without the Jacobian of the transforms, the mode is that of the density of the constrained
    parameters: with priors, the maximum a posteriori estimate, and without them, that of maximum
    likelihood. With it, the mode is that of the unconstrained parameters, at which `approximate`
    has the Laplace approximation. CmdStan's `optimize` has the same two.

    Parameters
    ----------
    target : Target
        A program with its data.
    jacobian : bool
        Whether to add the logarithm of the Jacobian determinant.
    starts : int
        Number of climbs. The highest end is the result, and a note reports whether others differ.
    seed : int, optional
        Seed of random starts.
    inits : optional
        Where climbs begin, as for `sample`.
    max_iterations : int
        Largest number of steps of a climb.
    show_progress : bool
        Show what takes more than a second.

    Returns
    -------
    Optimum
        A pandas.DataFrame by element, with the columns `mode` and `sd`, of parameters, and then of
        transformed parameters and generated quantities. `sd` is the standard deviation that the
        curvature at the mode implies, by the delta method; NaN where that is not known, and where
        the curvature depends on the distance in which it is measured, as at a corner. Of random
        quantities, both are NaN. Messages report whether starts disagree, and whether there is
        a mode at all.

    Raises
    ------
    StanadaptError
        Stage "initialization" if no start has a finite density, "settings" for a wrong argument.

    Examples
    --------
    >>> import stanadapt as sa
    >>> code = "parameters { real<lower=0> s; } model { s ~ gamma(3, 1); }"
    >>> target = sa.Target(code, backend="stanli", show_progress=False)
    >>> sa.optimize(target, seed=1).loc["s", "mode"].round(4)
    np.float64(2.0)
    >>> sa.optimize(target, seed=1, jacobian=True).loc["s", "mode"].round(4)
    np.float64(3.0)
    """
    target, inits = require_climbable(target, "optimize"), with_run_loaded(inits)
    plan, steps = plan_climbs(
        jacobian=jacobian, starts=starts, inits=inits, seed=seed, max_iterations=max_iterations,
        show_progress=show_progress,
    )  # fmt: skip
    rngs = [np.random.default_rng(source) for source in plan.seeds()]
    positions = initial_positions(target, inits, rngs)
    with slow_step(plan.show_progress, f"Climbing the density of {target.name}"):
        faults, outside = list[str](), list[str]()
        evaluate = objective(target, jacobian, faults, outside)
        with one_blas_thread(), np.errstate(all="ignore"):
            ends = in_threads(
                lambda i: _Climb(evaluate, positions[i], steps), plan.chains,
                threads=plan.parallel_chains,
            )  # fmt: skip
            best = max(ends, key=lambda end: (end.found, end.value))
            found = _optimum(target, jacobian, best, ends, plan.seed)
    if faults:
        text = f"{faults[0]}. What a climb met there is unknown. Correct the function."
        found.attrs["messages"].insert(0, Message("density_raised", text))
    if outside:
        text = f"the density {target.name} {min(outside)}, {len(outside)} times, which should mean "
        text += "that a position is outside the support. Inside, correct the function."
        found.attrs["messages"].append(Message("failed_evaluations", text))
    return found


def plan_climbs(
    *, jacobian: Any, starts: Any, inits: Any, seed: Any, max_iterations: Any, show_progress: Any
) -> tuple[Plan, int]:
    """Return the plan, and the largest number of steps: all arguments but the target, checked."""
    require_flag("jacobian", jacobian)
    require_inits(inits)
    plan = make_plan(
        chains=require_whole("starts", starts, 1), parallel_chains=None, iter_warmup=0,
        iter_sampling=1, thin=1, seed=seed, save_warmup=False, show_progress=show_progress,
    )  # fmt: skip
    return plan, require_whole("max_iterations", max_iterations, 1)


def objective(target: Target, jacobian: bool, faults: list[str], outside: list[str]) -> Evaluate:
    """Return a function of the unconstrained position: log density and gradient; -inf if it fails.

    `faults` and `outside` get what a density in Python raises. The embedded backend always adds the
    Jacobian, which is the density of the program without its model.
    """
    alone = None if jacobian or target.is_native else target.without(*AFTER_PARAMETERS)

    def evaluate(position: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            if jacobian or alone is not None:
                value, gradient = target.model.log_density_gradient(position)
            else:
                value, gradient = target.model.log_density_gradient(position, jacobian=False)
            if alone is not None:
                volume, slope = alone.log_density_gradient(position)
                value, gradient = value - volume, gradient - slope
        except RuntimeError as error:
            if isinstance(error, Fault):
                faults.append(f"the density {target.name} {error}")
            elif str(error).startswith("raised "):
                outside.append(str(error))
            return -np.inf, np.zeros(position.size)
        if np.isfinite(value) and np.isfinite(gradient).all():
            return value, gradient
        return -np.inf, np.zeros(position.size)

    return evaluate


class _TooFar(Exception):
    """A climb has gone so far that it will not return."""


class _Climb:
    """The end of a climb, and the curvature there, as far as it is known."""

    def __init__(self, evaluate: Evaluate, start: np.ndarray, steps: int) -> None:
        self.evaluate, self.dim, self.cure, self.lost = evaluate, start.size, RISES, False
        try:
            path = climb(self, start, steps, HISTORY, _Climb.into)
        except _TooFar as error:
            self.position, self.value = error.args
            self.found, self.covariance, self.lost = False, None, True
            self.problem = "the density keeps rising, far away"
            return
        if not len(path.log_density):  # the density without Jacobian may fail where that with it
            self.position, self.value, self.found = start, -np.inf, False  # does not
            self.covariance, self.problem = None, "the density fails at the start"
            return
        self.position, self.value = path.positions[-1], float(path.log_density[-1])
        ended = len(path.log_density) <= steps
        self.found, self.problem, self.covariance = self._settle(ended)
        if not self.found and not ended:
            self.problem = f"the limit of {steps:,} iterations was reached"
            self.cure = "Raise max_iterations."

    def into(self, position: np.ndarray, gradient: np.ndarray) -> float:
        """Return the value, and write the gradient, as `climb` expects."""
        value, gradient[:] = self.evaluate(position)
        if value > -np.inf and np.abs(position).max() > FARTHEST and gradient @ position > 0.0:
            raise _TooFar(position.copy(), value)
        return value

    def _settle(self, ended: bool) -> tuple[bool, str, np.ndarray | None]:
        """Take Newton steps; return whether there is a mode, the problem, and the covariance."""
        if self.dim > LARGEST_CURVED:
            why = f"no standard deviations: the curvature of {self.dim:,} parameters takes too long"
            return ended, why if ended else "the climb did not end", None
        for _ in range(STEPS):
            minus = self._curvature(SHARE * np.maximum(1.0, np.abs(self.position)))
            gradient = self.evaluate(self.position)[1]
            size = np.sqrt(np.abs(np.diag(minus)))
            if not np.isfinite(minus).all() or not (np.diag(minus) > 0.0).all():
                return False, "the density does not fall away from it in all directions", None
            values, vectors = np.linalg.eigh(minus / np.outer(size, size))
            if not values[0] > FLAT:
                return False, "the density does not fall away from it in all directions", None
            self.scales = 1.0 / size  # conditional standard deviations
            root = vectors / np.sqrt(values) / size[:, None]
            step = root @ (root.T @ gradient)
            value, _ = self.evaluate(self.position + step)
            long = np.any(np.abs(step) > SETTLED * (1.0 + np.abs(self.position)))
            if value >= self.value:
                self.position, self.value = self.position + step, value
            if not long and (step @ gradient < 1e-14 or value < self.value):
                break
        if long:
            return False, "the density keeps rising, far away", None
        return True, "", root @ root.T

    def _curvature(self, steps: np.ndarray) -> np.ndarray:
        """Return minus the Hessian, from central differences of gradients with these steps."""
        minus = falls(self.evaluate, self.position, steps)
        return 0.5 * (minus + minus.T)

    def check(self) -> None:
        """Take the covariance from steps in its own scales; None if larger steps find another."""
        if self.covariance is None:
            return
        near, far = (self._curvature(k * CHECKED_STEP * self.scales) for k in (1.0, 2.0))
        try:
            found = [np.linalg.inv(minus) for minus in (near, far, (4.0 * near - far) / 3.0)]
        except np.linalg.LinAlgError:
            found = [np.full_like(near, np.nan)] * 3
        first, *others = (np.sqrt(np.diag(covariance)) for covariance in found)
        differ = ~(np.abs(others / first - 1.0) < TOLERATED).all(axis=0)
        self.covariance = None if differ.any() else found[2]
        self.unsure = np.flatnonzero(differ)


def _optimum(
    target: Target, jacobian: bool, best: _Climb, ends: list[_Climb], seed: int
) -> Optimum:
    model, position = target.model, np.ascontiguousarray(best.position)
    best.check()
    messages = _messages(target, best, ends, jacobian)

    def quantities(x: np.ndarray, rng: Any = None) -> np.ndarray:
        rng = rng or model.new_rng(seed)
        return model.param_constrain(x, include_tp=True, include_gq=True, rng=rng)

    rng = model.new_rng(seed)
    try:
        every = model.param_names(include_tp=True, include_gq=True)
        repeats = REPEATS if "_rng" in target.program.code else 2
        values = quantities(position, rng)
        again = np.array([quantities(position, rng) for _ in range(repeats)])
        unknown = (again != values).any(axis=0)
        drawn = RANDOM.findall(block(target.program.code, "generated quantities"))
        unknown |= [name.split(".")[0] in drawn for name in every]
        whole = {name.split(".")[0] for name in target.program.integers}
    except RuntimeError as error:
        every, values = target.names, np.array(list(target.elements(position).values()))
        unknown, whole = np.zeros(len(every), bool), set()
        text = "generated quantities failed at the mode, and are left out. Stan says: "
        messages.append(Message("failed_quantities", text + " ".join(str(error).split())))
    values = np.where(unknown | best.lost, np.nan, values)
    sds = np.full(len(every), np.nan)
    if best.covariance is not None:
        names = target.names
        for function, count in ((model.param_constrain, len(names)), (quantities, len(every))):
            found = _deviations(function, position, best.covariance)[:count]
            sds[:count] = np.where(np.isnan(found), sds[:count], found)
    sds[unknown | [name.split(".")[0] in whole for name in every]] = np.nan
    kept = [i for i, name in enumerate(every) if name.split(".")[0] not in target.exclude]
    index = pd.Index([element_name(every[i]) for i in kept], name="element")
    table = Optimum({"mode": values[kept], "sd": sds[kept]}, index=index)
    table.attrs |= {
        "log_density": best.value, "jacobian": jacobian, "position": position,
        "parameters": stanio.stan_variables(target.parameters, values[: len(target.names)]),
        "ends": [end.value for end in ends], "messages": messages,
    }  # fmt: skip
    return table


def _deviations(
    function: Callable[[np.ndarray], np.ndarray], position: np.ndarray, covariance: np.ndarray
) -> np.ndarray:
    """Return standard deviations of the values of a function by the delta method."""
    slopes = []
    for i, sd in enumerate(np.sqrt(np.diag(covariance))):
        ahead, behind, distance = apart(position, i, DELTA_STEP * sd)
        try:
            slopes.append((function(ahead) - function(behind)) / distance)
        except RuntimeError:
            return np.full(1, np.nan)
    return np.sqrt(np.einsum("ji,jk,ki->i", slopes, covariance, slopes))


def _messages(target: Target, best: _Climb, ends: list[_Climb], jacobian: bool) -> list[str]:
    messages: list[str] = []
    if not best.found:
        far = np.argsort(-np.abs(best.position))[:NAMED]
        named = ", ".join(f"{target.coordinate_names[i]} = {best.position[i]:.3g}" for i in far)
        text = (
            f"no climb found a mode: where the highest one ended, {best.problem} (unconstrained, "
            f"the largest are {named}). {best.cure if jacobian else _cure(target, best)}"
        )
        messages.append(Message("no_optimum", text))
    elif best.problem:
        messages.append(Message("no_curvature", f"{best.problem}."))
    elif best.covariance is None:
        named = ", ".join(target.coordinate_names[i] for i in best.unsure[:NAMED])
        text = (
            f"no standard deviations: the curvature by {named} depends on the distance in which it "
            "is measured. There, the density is not smooth, nearly flat, or fails. Use sample."
        )
        messages.append(Message("no_curvature", text))
    lower = [end for end in ends if end is not best and end.found]
    lower = [end for end in lower if best.value - end.value > SAME * (1.0 + abs(best.value) * 1e-6)]
    lost = sum(not end.found for end in ends) if best.found else 0
    if lower:
        gaps = ", ".join(f"{best.value - end.value:.3g}" for end in lower)
        text = (
            f"{len(lower)} of {len(ends)} starts ended at another mode, whose log density is lower "
            f"by {gaps}: there may be still others. Raise starts, and sample for their weights."
        )
        messages.append(Message("several_optima", text))
    if lost:
        text = f"{lost} of {len(ends)} starts found no mode: the density may rise elsewhere."
        messages.append(Message("starts_without_optimum", text))
    return messages


def _cure(target: Target, best: _Climb) -> str:
    """Return the cure of a search without a mode: another sentence for the bound of a parameter."""
    values = target.elements(best.position)
    far = [
        name for name, x in zip(target.coordinate_names, best.position, strict=True)
        if abs(x) > AT_BOUND and values.get(name, x) != x
    ]  # fmt: skip
    flat = np.abs(best.evaluate(best.position)[1]).max() < LEVEL
    return BOUND.format(", ".join(far[:NAMED])) if far and flat else best.cure
