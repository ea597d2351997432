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
from stanadapt.beginning import beginning
from stanadapt.driver import FAILURES_BEFORE_STOP, Chain, Recording
from stanadapt.errors import StanadaptError
from stanadapt.inits import initial_positions
from stanadapt.noise import complaints
from stanadapt.plan import Plan, make_plan
from stanadapt.progress import reporter
from stanadapt.provenance import origin
from stanadapt.pseudo import pseudo_group, require_names, taken_apart
from stanadapt.run_told import (
    say_what_failed,
    say_what_is_doubtful,
    say_what_was_cut,
    warn,
    words_of,
)
from stanadapt.samplers import __name__ as _registers_all  # noqa: F401
from stanadapt.status import status
from stanadapt.target import Samplable, Target, samplable
from stanadapt.tempering_group import add_tempering

DTYPES = {bool: bool, int: np.int64, float: np.float64}


def sample(
    target: Samplable,
    sampler: Any = "gad_mala",
    *,
    chains: int = 4,
    parallel_chains: int | None = None,
    threads_per_chain: int = 1,
    iter_warmup: int | None = None,
    iter_sampling: int | None = None,
    thin: int = 1,
    seed: int | None = None,
    inits: Any = None,
    past: Any = None,
    reference_law: Any = None,
    prior_data: Any = None,
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
    threads_per_chain
        Threads that share the moves of one chain, for samplers that make several an iteration: up
        to `pseudo_samples` of pseudo_extended, one a level of parallel_tempering. For more cores
        than chains, and densities slower than some microseconds. The draws do not depend on it.
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
    reference_law, prior_data
        For samplers that temper (parallel_tempering, pseudo_extended): what lies at the hot end, a
        `ReferenceLaw` or the same program under other data, such as none; default: a law that is
        learned during warm-up.
    save_warmup, save_unconstrained
        Add the groups `warmup_*`, and `unconstrained_posterior`.
    save_pseudo
        Of an `Extended`, or of the sampler pseudo_extended: add the group `pseudo`, all
        pseudo-samples with their temperatures and weights, for `weighted_summary`.
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
        threads_per_chain=threads_per_chain,
        iter_warmup=found.iter_warmup if iter_warmup is None else iter_warmup,
        iter_sampling=found.iter_sampling if iter_sampling is None else iter_sampling,
        save_warmup=save_warmup, show_progress=show_progress,
    )  # fmt: skip
    _require_exact(program, found)
    _require_work(found, typed, plan)
    keep = Kept(save_unconstrained, save_pseudo)
    _require_pseudo(target, found, keep)
    begins = beginning(target, found, past, reference_law, prior_data)
    try:
        with status(plan.show_progress and found.learned is not None) as tell:
            tell(f"Loading {found.name}; the first time it is compiled: one or two minutes.")
            runs = _chains(target, found, typed, plan, inits, begins.init, keep)
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
            **begins.description,
        }
        return _result(target, plan, runs, attributes, keep)


class Kept(NamedTuple):
    """What a result holds beside the posterior and its statistics."""

    unconstrained: bool
    pseudo: bool


def _require_pseudo(target: Samplable, found: Any, keep: Kept) -> None:
    if not keep.pseudo:
        return
    if target.target is target and found.more is protocol.nothing_more:
        raise StanadaptError(
            "settings",
            f"save_pseudo keeps pseudo-samples, but {found.name} has none on {target.name}: leave "
            "it out, sample Extended(target), or take the sampler pseudo_extended.",
        )
    require_names(target.target)


def _require_work(found: Any, typed: tuple, plan: Plan) -> None:
    most, asked = found.most_threads(typed), plan.threads_per_chain
    if asked <= most:
        return
    if found.hire is None:
        able = [name for name, s in protocol.registered().items() if s.hire is not None]
        why = (
            f"{found.name} makes one move after the other, and has work for one thread a chain. "
            f"Take more chains, or a sampler with several moves an iteration ({', '.join(able)})"
        )
    else:
        why = (
            f"{found.name} with these settings has {most} moves an iteration: take no more threads"
        )
    raise StanadaptError("settings", f"threads_per_chain is {asked}, but {why}.")


def _require_exact(target: Target, found: Any) -> None:
    if target.noise and (found.uses_gradient or found.init_on is not None):
        usable = [name for name, s in protocol.registered().items() if s.uses_gradient is False]
        what = "follows gradients" if found.uses_gradient else "raises the density to powers"
        raise StanadaptError(
            "settings",
            f"{found.name} {what}, but the density of {target.name} is an estimate "
            f"with noise {', '.join(target.noise)}. Take a sampler without gradients "
            f"({', '.join(usable)}), or make the target without `noise` to sample both.",
        )


def _result(
    target: Samplable, plan: Plan, runs: list[Chain], known: dict[str, Any], keep: Kept
) -> Any:
    kept, length = _common_length([_usable(chain) for chain in runs])
    _require_draws(target, runs, known["interrupted"], length)
    attributes = _attributes(target, runs[0].sampler, runs[0].settings, plan, runs)
    attributes |= {**known, "chains_kept": [number + 1 for number in kept]}
    groups = _groups(target, [runs[i] for i in kept], length, keep)
    say_what_failed(target, runs, kept)
    say_what_is_doubtful([runs[i] for i in kept], length)
    say_what_was_cut(runs, kept, length)
    if runs[0].sampler.learned is not None:
        for text in add_tempering(target, [runs[i] for i in kept], length, groups):
            warn(text)
    return results.build(groups, attributes)


def _chains(
    target: Samplable, found: Any, typed: tuple, plan: Plan, inits: Any, init: Any, keep: Kept
) -> list[Chain]:
    """One chain a seed; draws are written into one array for all, so that none is copied."""
    sources = [source.spawn(2) for source in plan.seeds()]
    rngs = [np.random.default_rng(moves) for moves, _ in sources]
    positions = initial_positions(target, inits, rngs, found.uses_gradient)
    quantities = [int(source.generate_state(1, np.uint32)[0]) for _, source in sources]
    last = plan.chains * plan.threads_per_chain  # each helper gets a number as a chain does
    chains = [
        Chain(
            found, typed, target.density(i), position, rng, plan,
            partial(target.constrainer, seed, i),
            len(target.target.column_names), any(keep), keep.pseudo, init,
            [target.density(number) for number in range(plan.chains + i, last, plan.chains)],
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
            words_of(target, stopped[0]),
        )
    done = sum(chain.n_done for chain in runs)
    how = "interrupted" if interrupted else "ended"
    raise StanadaptError(
        "sampling",
        f"{how} during warm-up after {done} iterations in all: there are no draws to return. "
        "A shorter warm-up (`iter_warmup`) reaches the first draws earlier.",
    )


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
            more = _stacked([c.sampling.more for c in chains], length)
            parts = taken_apart(more, target.dim) if more.size else target.pseudo(raw)
            groups["pseudo"] = pseudo_group(target.target, *parts)
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
