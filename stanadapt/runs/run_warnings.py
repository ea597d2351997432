"""What a run is to say at its end: one sentence per kind of failure."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from stanadapt.engine.chain import FAILURES_BEFORE_STOP, Chain
from stanadapt.targets.target import Samplable

VALUES_SHOWN = 6  # of the point at which a density failed


def stan_message_at(target: Samplable, chain: Chain) -> str:
    """Stan's message at the position where a chain's density was last not finite."""
    return target.evaluate(chain.density.failed_position)[2]


def failures(target: Samplable, runs: list[Chain], kept: list[int]) -> Iterator[str]:
    """One sentence per kind of failure, however many there were."""
    evaluations = sum(chain.calls["values"] + chain.calls["gradients"] for chain in runs)
    failed = sum(chain.calls["failed"] for chain in runs)
    if failed:
        worst = max(runs, key=lambda chain: chain.calls["failed"])
        message = " ".join(stan_message_at(target, worst).split())
        yield (
            f"{failed} of {evaluations} evaluations of {target.name} ({failed / evaluations:.2%}) "
            f"had no finite density and were rejected{_quoted(message)}"
            f"{_point(target, runs.index(worst), worst.density.failed_position)} If there are "
            "many, bound the parameters in the program, or give them tighter priors."
        )
    quantities = sum(chain.failed_quantities for chain in runs)
    if quantities:
        worst = max(runs, key=lambda chain: chain.failed_quantities)
        constrain: Any = worst.sampling.constrain
        message = " ".join(constrain.explain().split())
        yield (
            f"generated quantities threw at {quantities} draws, which hold NaN{_quoted(message)} "
            "The parameters are not touched by it: mend the block, or leave out what throws."
        )
    stopped = [str(i + 1) for i, chain in enumerate(runs) if chain.stopped]
    if stopped:
        yield (
            f"{_chains(stopped)}: stopped after {FAILURES_BEFORE_STOP} consecutive failed "
            f"evaluations and left out; the result holds {len(kept)} of {len(runs)} chains. "
            "Start elsewhere (inits), or use another seed."
        )


def short_chains(runs: list[Chain], kept: list[int], length: int) -> Iterator[str]:
    """Of the chains that an interruption left too short to keep."""
    short = [str(i + 1) for i, c in enumerate(runs) if i not in kept and not c.stopped]
    if short:
        yield (
            f"interrupted: {len(kept)} of {len(runs)} chains are kept, with {length} draws each; "
            f"left out, with fewer draws: {_chains(short)}."
        )


def of_draws(runs: list[Chain], length: int) -> list[str]:
    """What a sampler itself has to say of the first draws of each of these chains."""
    first = runs[0]
    if first.sampler.sentences is None:
        return []
    table = np.stack([chain.sampling.stats[:length] for chain in runs])
    stats = {name: table[..., column] for column, name in enumerate(first.stat_names)}
    return first.sampler.sentences(first.settings, first.density.dim, stats)


def _chains(numbers: list[str]) -> str:
    return f"chain{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def _quoted(message: str) -> str:
    if not message:
        return "."
    return f"; Stan says: {message}{'' if message.endswith(('.', '!', '?')) else '.'}"


def _point(target: Samplable, chain: int, position: np.ndarray) -> str:
    """Parameters where the density of a chain failed last, on their own scale if they have one."""
    program = target.target
    if position.size != program.dim:
        return ""  # of several pseudo-samples: their message says which one
    position = target.original(position)
    values: dict[str, Any] = dict(zip(program.model.param_unc_names(), position, strict=True))
    with contextlib.suppress(RuntimeError):  # quantities computed on the way may throw
        values = _scalars(program.constrain(position))
    shown = [f"{name} = {value:.4g}" for name, value in list(values.items())[:VALUES_SHOWN]]
    more = f" and {len(values) - VALUES_SHOWN} more" if len(values) > VALUES_SHOWN else ""
    return f" The last of them in chain {chain + 1} was at {', '.join(shown)}{more}."


def _scalars(values: dict[str, np.ndarray]) -> dict[str, float]:
    found = {}
    for name, value in values.items():
        for index in np.ndindex(np.shape(value)):
            label = f"{name}[{','.join(str(i + 1) for i in index)}]" if index else name
            found[label] = float(np.asarray(value)[index])
    return found
