"""From a target and a sampler to an ArviZ object: the function users call."""

import contextlib
import json
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from stanadapt import driver as engine
from stanadapt import protocol, results
from stanadapt.driver import FAILURES_BEFORE_STOP, Chain, Recording
from stanadapt.errors import StanadaptError
from stanadapt.inits import initial_positions, past_positions
from stanadapt.noise import complaints
from stanadapt.plan import Plan, make_plan
from stanadapt.progress import reporter
from stanadapt.provenance import origin
from stanadapt.pseudo import pseudo_group, require_names
from stanadapt.samplers import __name__ as _registers_all  # noqa: F401
from stanadapt.target import Samplable, Target, samplable

DTYPES = {bool: bool, int: np.int64, float: np.float64}
# fields of Info that put the draws in doubt where they are true
DOUBTS = {
    "diverging": "come from trajectories that diverged: regions of high curvature may be "
    "underrepresented. Raise target_accept, or write the model in other parameters.",
    "reached_max_treedepth": "come from trajectories that were cut at max_treedepth: the chains "
    "move less than they could. Raise max_treedepth, or write the model in other parameters.",
}


def sample(
    target: Samplable,
    sampler: Any = "gad_mala",
    *,
    chains: int = 4,
    parallel_chains: int | None = None,
    iter_warmup: int | None = None,
    iter_sampling: int | None = None,
    thin: int = 1,
    seed: int | None = None,
    inits: Any = None,
    past: Any = None,
    save_warmup: bool = False,
    save_unconstrained: bool = False,
    save_pseudo: bool = False,
    show_progress: bool = True,
    **settings: Any,
) -> Any:
    """Draw from a target with one of our samplers.

    Parameters
    ----------
    target
        A Stan program with its data, or its pseudo-extension (`Extended`).
    sampler
        Name of a sampler (`stanadapt samplers` lists them), or an instance of its `Settings`.
    chains, parallel_chains
        How many, and how many at once (default: as many as there are cores). The draws do not
        depend on the latter.
    iter_warmup, iter_sampling
        Iterations a chain; default: what suits the sampler.
    thin
        Keep every thin-th iteration.
    seed
        0 to 2**32 - 1; default: a random one, to be read in the result's attributes.
    inits
        Where chains start: see `inits.initial_positions`.
    past
        An earlier fit of the same program, by any sampler: all chains begin to learn from its
        draws, as if they were their own. For a sampler that learns from its past (kameleon).
    save_warmup, save_unconstrained
        Add the groups `warmup_*`, and `unconstrained_posterior`.
    save_pseudo
        Of an `Extended`: add the group `pseudo`, all pseudo-samples with their temperatures and
        weights, for `weighted_summary`.
    show_progress
        Bars in a terminal, lines elsewhere.
    settings
        The sampler's own, by name.

    Returns
    -------
    ArviZ object
        Groups posterior, sample_stats and, where there is any, log_likelihood; attributes tell
        how it was made. After Ctrl-C: the draws there are, `interrupted` set.

    Raises
    ------
    StanadaptError
        Before sampling for whatever is wrong with the arguments; after it only if no draw was
        kept.

    """
    program = samplable(target).target
    found, typed = protocol.find(sampler, **settings)
    plan = make_plan(
        chains=chains, parallel_chains=parallel_chains, thin=thin, seed=seed,
        iter_warmup=found.iter_warmup if iter_warmup is None else iter_warmup,
        iter_sampling=found.iter_sampling if iter_sampling is None else iter_sampling,
        save_warmup=save_warmup, show_progress=show_progress,
    )  # fmt: skip
    _require_exact(program, found)
    keep = Kept(save_unconstrained, save_pseudo)
    _require_pseudo(target, keep)
    recalled = None if past is None else _recalled(target, found, past)
    try:
        runs = _chains(target, found, typed, plan, inits, recalled, keep)
    except MemoryError:
        kept = plan.chains * (plan.draws + plan.warmup_draws)
        size = 8e-9 * kept * len(program.column_names)
        raise StanadaptError(
            "settings",
            f"{kept} draws of {len(program.column_names)} numbers each do not fit into memory "
            f"({size:.1f} GB). Keep fewer: iter_sampling, thin, chains.",
        ) from None
    if program.noise:
        for sentence in complaints(program, runs[0].state.current.position, plan.seed):
            warnings.warn(sentence, UserWarning, stacklevel=2)
    compile_seconds = runs[0].compile()
    with reporter(plan.show_progress) as report:
        interrupted = engine.run(runs, plan.parallel_chains, report.update)
    with _unbroken():
        attributes = {
            "compile_seconds": compile_seconds + program.compile_seconds,
            "interrupted": interrupted,
            "past_draws": 0 if recalled is None else len(recalled),
        }
        return _result(target, plan, runs, attributes, keep)


class Kept(NamedTuple):
    """What a result holds beside the posterior and its statistics."""

    unconstrained: bool
    pseudo: bool


def _require_pseudo(target: Samplable, keep: Kept) -> None:
    if not keep.pseudo:
        return
    if target.target is target:
        raise StanadaptError(
            "settings",
            f"save_pseudo keeps the pseudo-samples of an Extended, but {target.name} has none: "
            "leave it out, or sample Extended(target).",
        )
    require_names(target.target)


def _require_exact(target: Target, found: Any) -> None:
    if target.noise and found.uses_gradient:
        usable = [name for name, s in protocol.registered().items() if not s.uses_gradient]
        raise StanadaptError(
            "settings",
            f"{found.name} follows gradients, but the density of {target.name} is an estimate "
            f"with noise {', '.join(target.noise)}. Take a sampler without gradients "
            f"({', '.join(usable)}), or make the target without `noise` to sample both.",
        )


def _recalled(target: Samplable, found: Any, past: Any) -> np.ndarray:
    if target.target is not target:
        raise StanadaptError(
            "settings",
            f"{target!r} has no earlier positions of its own: leave `past` out. (`inits` may be "
            "an earlier fit of its program.)",
        )
    if found.recall is None:
        able = [name for name, s in protocol.registered().items() if s.recall is not None]
        raise StanadaptError(
            "settings",
            f"{found.name} does not learn from a past, as {', '.join(able)} does: "
            "leave `past` out. (`inits` may be an earlier fit for every sampler.)",
        )
    return past_positions(target, past)


def _result(
    target: Samplable, plan: Plan, runs: list[Chain], known: dict[str, Any], keep: Kept
) -> Any:
    kept, length = _common_length([_usable(chain) for chain in runs])
    _require_draws(target, runs, known["interrupted"], length)
    attributes = _attributes(target, runs[0].sampler, runs[0].settings, plan, runs)
    attributes |= {**known, "chains_kept": [number + 1 for number in kept]}
    groups = _groups(target, [runs[i] for i in kept], length, keep)
    _say_what_failed(target, runs, kept)
    _say_what_is_doubtful([runs[i] for i in kept], length)
    _say_what_was_cut(runs, kept, length)
    return results.build(groups, attributes)


def _chains(
    target: Samplable, found: Any, typed: tuple, plan: Plan, inits: Any, past: Any, keep: Kept
) -> list[Chain]:
    """One chain a seed; draws are written into one array for all, so that none is copied."""
    sources = [source.spawn(2) for source in plan.seeds()]
    rngs = [np.random.default_rng(moves) for moves, _ in sources]
    positions = initial_positions(target, inits, rngs, found.uses_gradient)
    quantities = [int(source.generate_state(1, np.uint32)[0]) for _, source in sources]
    chains = [
        Chain(
            found, typed, target.density(i), position, rng, plan,
            partial(target.constrainer, seed, i),
            len(target.target.column_names), any(keep), past,
        )
        for i, (position, rng, seed) in enumerate(zip(positions, rngs, quantities, strict=True))
    ]  # fmt: skip
    for phase in ("warmup", "sampling"):
        whole = np.empty((plan.chains, *getattr(chains[0], phase).constrained.shape))
        for chain, share in zip(chains, whole, strict=True):
            getattr(chain, phase).constrained = share
    return chains


def _usable(chain: Chain) -> int:
    """Draws that count: none of a chain that was stopped, whose last ones are all one point."""
    return 0 if chain.stopped else chain.sampling.rows


def _common_length(lengths: list[int]) -> tuple[list[int], int]:
    """Choose the chains and the length that keep the most draws, all chains equally long."""
    best: tuple[int, int, int] = (0, 0, 0)
    for length in set(lengths):
        chains = sum(other >= length for other in lengths)
        best = max(best, (chains * length, chains, length))
    length = best[2]
    return [i for i, other in enumerate(lengths) if other >= length > 0], length


def _require_draws(target: Samplable, runs: list[Chain], interrupted: bool, length: int) -> None:
    if length:
        return
    stopped = [chain for chain in runs if chain.stopped]
    if stopped:
        raise StanadaptError(
            "sampling",
            f"{len(stopped)} of {len(runs)} chains of {target.name} were stopped: their last "
            f"{FAILURES_BEFORE_STOP} evaluations all failed. Check the priors and the constraints, "
            "start elsewhere (`inits`), or begin with smaller steps.",
            _words(target, stopped[0]),
        )
    done = sum(chain.n_done for chain in runs)
    how = "interrupted" if interrupted else "ended"
    raise StanadaptError(
        "sampling",
        f"{how} during warm-up after {done} iterations in all: there are no draws to return. "
        "A shorter warm-up (`iter_warmup`) reaches the first draws earlier.",
    )


def _words(target: Samplable, chain: Chain) -> str:
    return target.evaluate(chain.density.failed_position)[2]


def _stacked(arrays: Sequence[np.ndarray], length: int) -> np.ndarray:
    """(chain, draw, ...) of equally long chains: a view of their common array where it can be."""
    whole = arrays[0].base
    if whole is not None and all(array.base is whole for array in arrays):
        for first in range(len(whole) - len(arrays) + 1):
            part = whole[first : first + len(arrays)]
            if all(np.shares_memory(a[:1], p[:1]) for a, p in zip(arrays, part, strict=True)):
                return part[:, :length]
    return np.stack([array[:length] for array in arrays])


@contextlib.contextmanager
def _unbroken() -> Iterator[None]:
    """Let Ctrl-C wait: what has been drawn is not to be lost while the result is put together."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    saved = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, saved)


def _groups(target: Samplable, chains: list[Chain], length: int, keep: Kept) -> results.Groups:
    names, info = chains[0].stat_names, chains[0].sampler.info.__annotations__
    groups: results.Groups = {}

    def add(prefix: str, recordings: list[Recording], length: int) -> None:
        table = np.stack([r.stats[:length] for r in recordings])
        table[..., names.index("n_evaluations")] *= target.evaluations_per_call
        counted = "n_gradients" if chains[0].sampler.uses_gradient else "n_density"
        stats = {}
        for column, name in enumerate(names):
            kind = int if name == "n_evaluations" else info.get(name, float)
            label = counted if name == "n_evaluations" else name
            stats[label] = table[..., column].astype(DTYPES[kind])
        draws = results.variables(
            target.target.column_names, _stacked([r.constrained for r in recordings], length)
        )
        groups.update(results.groups_of(prefix, draws, stats))

    add("", [chain.sampling for chain in chains], length)
    if chains[0].plan.warmup_draws:
        add("warmup_", [c.warmup for c in chains], min(c.warmup.rows for c in chains))
    if chains[0].sampling.unconstrained is not None:
        raw = _stacked([c.sampling.unconstrained for c in chains], length)
        if keep.unconstrained:
            groups["unconstrained_posterior"] = {"position": raw}
        if keep.pseudo:
            groups["pseudo"] = pseudo_group(target.target, *target.pseudo(raw))
    return groups


def _attributes(
    target: Samplable, found: Any, typed: tuple, plan: Plan, runs: list[Chain]
) -> dict[str, Any]:
    program, each = target.target, target.evaluations_per_call
    return {
        **origin(program, plan),
        **target.description,
        "sampler": found.name,
        "settings": json.dumps(protocol.as_chosen(typed)),
        "backend": program.backend,
        "backend_reason": program.backend_reason,
        "backend_version": program.backend_version,
        "noise": list(program.noise),
        "rho": program.rho,
        "warmup_seconds": [chain.warmup_seconds for chain in runs],
        "sampling_seconds": [chain.sampling_seconds for chain in runs],
        "n_gradients": each * sum(chain.calls["gradients"] for chain in runs),
        "n_gradients_warmup": each * int(sum(chain.warmup_calls[1] for chain in runs)),
        "n_density": each * sum(chain.calls["values"] for chain in runs),
        "n_density_warmup": each * int(sum(chain.warmup_calls[0] for chain in runs)),
        "n_failed": sum(chain.calls["failed"] for chain in runs),
        "n_failed_quantities": sum(chain.failed_quantities for chain in runs),
        "n_stopped": sum(chain.stopped for chain in runs),
    }


def _say_what_failed(target: Samplable, runs: list[Chain], kept: list[int]) -> None:
    """One sentence a kind of failure, at the end, whatever their number was."""
    evaluations = sum(chain.calls["values"] + chain.calls["gradients"] for chain in runs)
    failed = sum(chain.calls["failed"] for chain in runs)
    if failed:
        worst = max(runs, key=lambda chain: chain.calls["failed"])
        words = " ".join(_words(target, worst).split())
        _warn(
            f"{failed} of {evaluations} evaluations of {target.name} ({failed / evaluations:.2%}) "
            f"had no finite density and were rejections{_quoted(words)}"
        )
    quantities = sum(chain.failed_quantities for chain in runs)
    if quantities:
        worst = max(runs, key=lambda chain: chain.failed_quantities)
        words = " ".join(worst.sampling.constrain.explain().split())
        _warn(f"generated quantities threw at {quantities} draws, which hold NaN{_quoted(words)}")
    stopped = [str(i + 1) for i, chain in enumerate(runs) if chain.stopped]
    if stopped:
        _warn(
            f"chain {', '.join(stopped)} was stopped after {FAILURES_BEFORE_STOP} failed "
            f"evaluations in a row and is not in the result, which holds {len(kept)} chains."
        )


def _say_what_is_doubtful(chains: list[Chain], length: int) -> None:
    """One sentence for each of DOUBTS that the sampler reports and that occurred."""
    names = chains[0].stat_names
    for field, doubt in DOUBTS.items():
        if field not in names:
            continue
        column = names.index(field)
        count = sum(int(chain.sampling.stats[:length, column].sum()) for chain in chains)
        if count:
            total = len(chains) * length
            _warn(f"{count} of {total} draws ({count / total:.2%}) {doubt}")


def _say_what_was_cut(runs: list[Chain], kept: list[int], length: int) -> None:
    """Tell which chains an interruption left too short to keep."""
    short = [str(i + 1) for i, c in enumerate(runs) if i not in kept and not c.stopped]
    if short:
        _warn(
            f"interrupted: {len(kept)} chains of {length} draws are kept, the most there were of "
            f"one length; chain {', '.join(short)} had fewer and is left out."
        )


def _quoted(words: str) -> str:
    return f"; Stan says: {words}" if words else "."


def _warn(sentence: str) -> None:
    warnings.warn(sentence, UserWarning, stacklevel=5)
