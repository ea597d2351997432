"""What a run is to say at its end: one sentence per kind of failure."""

from collections.abc import Iterator
from typing import Any

from stanadapt.sampling.chain import FAILURES_BEFORE_STOP, Chain
from stanadapt.targets.target import Samplable


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
        )
    quantities = sum(chain.failed_quantities for chain in runs)
    if quantities:
        worst = max(runs, key=lambda chain: chain.failed_quantities)
        constrain: Any = worst.sampling.constrain
        message = " ".join(constrain.explain().split())
        yield f"generated quantities threw at {quantities} draws, which hold NaN{_quoted(message)}"
    stopped = [str(i + 1) for i, chain in enumerate(runs) if chain.stopped]
    if stopped:
        yield (
            f"{_chains(stopped)}: stopped after {FAILURES_BEFORE_STOP} consecutive failed "
            f"evaluations and left out; the result holds {len(kept)} of {len(runs)} chains."
        )


def short_chains(runs: list[Chain], kept: list[int], length: int) -> Iterator[str]:
    """Of the chains that an interruption left too short to keep."""
    short = [str(i + 1) for i, c in enumerate(runs) if i not in kept and not c.stopped]
    if short:
        yield (
            f"interrupted: {len(kept)} of {len(runs)} chains are kept, with {length} draws each; "
            f"left out, with fewer draws: {_chains(short)}."
        )


def _chains(numbers: list[str]) -> str:
    return f"chain{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def _quoted(message: str) -> str:
    return f"; Stan says: {message}" if message else "."
