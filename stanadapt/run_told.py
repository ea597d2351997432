"""What is said at the end of a run: one sentence a kind of failure or doubt."""

import warnings

from stanadapt.driver import FAILURES_BEFORE_STOP, Chain
from stanadapt.target import Samplable

# fields of Info that put the draws in doubt where they are true
DOUBTS = {
    "diverging": "come from trajectories that diverged: regions of high curvature may be "
    "underrepresented. Raise target_accept, or write the model in other parameters.",
    "reached_max_treedepth": "come from trajectories that were cut at max_treedepth: the chains "
    "move less than they could. Raise max_treedepth, or write the model in other parameters.",
}


def words_of(target: Samplable, chain: Chain) -> str:
    """Stan's words at the place where a chain's density last was not finite."""
    return target.evaluate(chain.density.failed_position)[2]


def say_what_failed(target: Samplable, runs: list[Chain], kept: list[int]) -> None:
    """One sentence a kind of failure, at the end, whatever their number was."""
    evaluations = sum(chain.calls["values"] + chain.calls["gradients"] for chain in runs)
    failed = sum(chain.calls["failed"] for chain in runs)
    if failed:
        worst = max(runs, key=lambda chain: chain.calls["failed"])
        words = " ".join(words_of(target, worst).split())
        warn(
            f"{failed} of {evaluations} evaluations of {target.name} ({failed / evaluations:.2%}) "
            f"had no finite density and were rejections{_quoted(words)}"
        )
    quantities = sum(chain.failed_quantities for chain in runs)
    if quantities:
        worst = max(runs, key=lambda chain: chain.failed_quantities)
        words = " ".join(worst.sampling.constrain.explain().split())
        warn(f"generated quantities threw at {quantities} draws, which hold NaN{_quoted(words)}")
    stopped = [str(i + 1) for i, chain in enumerate(runs) if chain.stopped]
    if stopped:
        warn(
            f"chain {', '.join(stopped)} was stopped after {FAILURES_BEFORE_STOP} failed "
            f"evaluations in a row and is not in the result, which holds {len(kept)} chains."
        )


def say_what_is_doubtful(chains: list[Chain], length: int) -> None:
    """One sentence for each of DOUBTS that the sampler reports and that occurred."""
    names = chains[0].stat_names
    for field, doubt in DOUBTS.items():
        if field not in names:
            continue
        column = names.index(field)
        count = sum(int(chain.sampling.stats[:length, column].sum()) for chain in chains)
        if count:
            total = len(chains) * length
            warn(f"{count} of {total} draws ({count / total:.2%}) {doubt}")


def say_what_was_cut(runs: list[Chain], kept: list[int], length: int) -> None:
    """Tell which chains an interruption left too short to keep."""
    short = [str(i + 1) for i, c in enumerate(runs) if i not in kept and not c.stopped]
    if short:
        warn(
            f"interrupted: {len(kept)} chains of {length} draws are kept, the most there were of "
            f"one length; chain {', '.join(short)} had fewer and is left out."
        )


def _quoted(words: str) -> str:
    return f"; Stan says: {words}" if words else "."


def warn(sentence: str) -> None:
    """Warn at the line that called `sample`."""
    warnings.warn(sentence, UserWarning, stacklevel=5)
