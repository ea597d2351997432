"""What failed in a run, as notes for the user, and the error of a run without draws."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.after_run import RunView
from stanadapt.engine.chain import FAILURES_BEFORE_STOP, Chain
from stanadapt.errors import Message, StanadaptError, first_of
from stanadapt.runs.hard_edges import EDGES_FROM, Edge, ends_recorded, find_cut_tails, find_edges
from stanadapt.targets.target import Samplable

VALUES_SHOWN = 6  # of the point at which a density failed
FEW_POINTS = 100  # draws with which a position is compared
# share of evaluations up to which failures in warm-up alone are not worth a note
FEW_FAILURES = 0.01


class Failures(NamedTuple):
    """Evaluations without a finite density or gradient, and what explains them."""

    share: float  # number per iteration of sampling, of the chains that are kept
    edges: list[Edge]  # hard edges at which trajectories ended
    fault: str  # of the function of a density in Python; "" without any
    cut_tails: list[str]  # parameters whose density is not small where numbers end, at a bound
    cut_off: bool  # whether gradients are not finite in a region to which draws belong

    @property
    def attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {**ends_recorded(self.edges, self.cut_tails)}
        if self.edges:
            found["share_at_edges"] = self.share
        if self.fault:
            found["density_raised"] = self.fault
        if self.cut_off:
            found["share_without_gradient"] = self.share
        return found


NOTHING_FAILED = Failures(0.0, [], "", [], False)


def find_failures(view: RunView) -> Failures:
    """Explain the failures of the chains that a result keeps.

    A failure ends a trajectory: its number per iteration is the share of trajectories that ended
    so.
    """
    failed = sum(chain.calls["failed"] - int(chain.warmup_calls[2]) for chain in view.chains)
    share = failed / sum(chain.sampling.rows * chain.plan.thin for chain in view.chains)
    fault = view.target.target.fault(_failed(view))
    edges, cut_tails = _ends(view) if share > 0.0 and not fault else ([], [])
    return Failures(share, edges, fault, cut_tails, _lacks_gradient(view))


def _failed(view: RunView) -> list[np.ndarray]:
    """Return the position, of the program, at which each chain failed last, if it failed."""
    places = [chain.density.failed_position for chain in view.chains if chain.calls["failed"]]
    dim = view.target.target.dim
    return [view.target.original(place) for place in places if place.size == dim]


def _ends(view: RunView) -> tuple[list[Edge], list[str]]:
    """Return the hard edges at which trajectories ended, and the tails that are cut off at bounds.

    Edges are sought only if trajectories diverged, and neither they nor tails with tempering or
    pseudo-samples, which do not distinguish failures at other temperatures.
    """
    program, stats = view.target.target, view.sample_stats
    hot = view.chains[0].sampler.tempering is not None or view.target.has_pseudo_samples
    if hot or program.noise_size:
        return [], []
    draws = view.positions(EDGES_FROM)
    diverged = "diverging" in stats and bool(stats["diverging"].any())
    return find_edges(program, draws) if diverged else [], find_cut_tails(program, draws)


def _lacks_gradient(view: RunView) -> bool:
    """Whether a gradient was not finite at a position as probable as the draws.

    Samplers that follow gradients reject each such position, so the draws lack its region. Far out,
    where a trajectory diverges, a gradient may be too large for a float without harm.
    """
    program = view.target.target
    evaluated = [program.evaluate(place)[:2] for place in _failed(view)]
    lost = [value for value, slope in evaluated if not np.isfinite(slope).all()]
    lost = [value for value in lost if np.isfinite(value)]
    if not lost:
        return False
    draws = [program.evaluate(draw)[0] for draw in view.positions(FEW_POINTS)]
    return bool(max(lost) >= np.nanmin(draws))


def failure_notes(
    target: Samplable, chains: list[Chain], kept: list[int], failures: Failures
) -> Iterator[str]:
    """Yield one note per kind of failure, however many there were.

    If the density fails at hard edges, the verdict names these. A few failures in warm-up alone are
    steps that were tried and found too long, and need no note.
    """
    evaluations = sum(chain.calls["values"] + chain.calls["gradients"] for chain in chains)
    failed = sum(chain.calls["failed"] for chain in chains)
    in_warmup = sum(int(chain.warmup_calls[2]) for chain in chains)
    trials = failed == in_warmup and failed <= FEW_FAILURES * evaluations
    if failed and not trials and not failures.edges:
        worst = max(chains, key=lambda chain: chain.calls["failed"])
        lacking, remedy = "density", "If there are many, bound the parameters in the program, or "
        remedy += "give them tighter priors."
        if target.target.described:
            remedy = "If there are many, transform the parameters to all real numbers."
        if failures.cut_off:
            lacking = "density, or its gradient was not finite,"
            remedy = "Some are as probable as the draws, which lack that region."
        yield Message(
            "failed_evaluations",
            f"{failed} of {evaluations} evaluations of {target.name} ({failed / evaluations:.2%}) "
            f"had no finite {lacking} and were rejected"
            f"{quoted(_stan_message(target, worst), target.target.described or 'Stan')}"
            f"{_point(target, chains.index(worst), worst.density.failed_position)} {remedy}",
        )
    quantities = sum(chain.failed_quantities for chain in chains)
    if quantities:
        worst = max(chains, key=lambda chain: chain.failed_quantities)
        constrain: Any = worst.sampling.constrain
        yield Message(
            "failed_quantities",
            f"generated quantities failed at {quantities} draws, and are NaN there"
            f"{quoted(constrain.explain())} Parameters are unaffected. Fix the block, or remove "
            "the failing statement.",
        )
    stopped = [i for i, chain in enumerate(chains) if chain.stopped]
    if stopped:
        yield Message(
            "stopped_chains",
            f"{_chains(stopped)}: stopped after {FAILURES_BEFORE_STOP} consecutive failed "
            f"evaluations and left out; the result has {len(kept)} of {len(chains)} chains. "
            "Start elsewhere (inits), or use another seed.",
        )


def short_chains(stopped: Sequence[bool], kept: list[int], length: int) -> Iterator[str]:
    """Yield a note on the chains that an interruption left too short to keep.

    Chains that were stopped, since their density failed, have another note.
    """
    short = [i for i, ended in enumerate(stopped) if i not in kept and not ended]
    if short:
        yield Message(
            "chains_too_short",
            f"interrupted: {len(kept)} of {len(stopped)} chains are kept, with {length} draws "
            f"each; left out, with fewer draws: {_chains(short)}.",
        )


def _chains(numbers: list[int]) -> str:
    counted = ", ".join(str(number + 1) for number in numbers)
    return f"chain{'s' if len(numbers) > 1 else ''} {counted}"


def quoted(message: str, speaker: str = "Stan") -> str:
    """Return the end of a sentence, with the message of Stan if there is one."""
    message = " ".join(message.split())
    if not message:
        return "."
    return f"; {speaker} says: {message}{'' if message.endswith(('.', '!', '?')) else '.'}"


def _stan_message(target: Samplable, chain: Chain) -> str:
    """Stan's message at the position at which a chain's density last failed."""
    return target.evaluate(chain.density.failed_position)[2]


def _point(target: Samplable, chain: int, position: np.ndarray) -> str:
    """Parameters at which the density of a chain failed last, on their own scale if possible."""
    program = target.target
    if position.size != program.dim:
        return ""  # of several pseudo-samples: their message names one
    position = target.original(position)
    values: dict[str, Any] = dict(zip(program.coordinate_names, position, strict=True))
    with contextlib.suppress(RuntimeError):  # transformed parameters may throw here
        values = program.elements(position)
    shown = first_of((f"{name} = {value:.4g}" for name, value in values.items()), VALUES_SHOWN)
    return f" The last of them in chain {chain + 1} was at {shown}."


def no_draws(
    target: Samplable,
    chains: list[Chain],
    interrupted: bool,
    stopped: Message | None = None,
    task: str = "",
) -> StanadaptError:
    """Return the error of a run that ended before there was a draw, during a task or warm-up.

    stopped is the reason, if there is another one than Ctrl-C.
    """
    failing = [chain for chain in chains if chain.stopped]
    if failing and not stopped:
        return StanadaptError(
            "no_draws",
            f"{len(failing)} of {len(chains)} chains of {target.name} were stopped: their last "
            f"{FAILURES_BEFORE_STOP} evaluations all failed. Check the priors and the constraints, "
            "start elsewhere (`inits`), or use the default sampler or 'nuts', which search for a "
            "first step that works.",
            _stan_message(target, failing[0]),
        )
    done = sum(chain.n_done for chain in chains)
    how = stopped.rstrip(".") if stopped else "interrupted" if interrupted else "ended"
    return StanadaptError(
        "interrupted" if interrupted else "no_draws",
        f"{how}, during {task or 'warm-up'} after {done} iterations in all: there are no draws. "
        "A shorter warm-up (`iter_warmup`) reaches the first draws earlier.",
    )
