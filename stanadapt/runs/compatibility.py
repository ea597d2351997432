"""Whether a sampler suits a target, and what is asked of it: found out before anything runs."""

from typing import Any

from stanadapt.engine.protocol import Sampler
from stanadapt.engine.registry import names_of
from stanadapt.errors import StanadaptError
from stanadapt.samplers.langevin.minibatches import Minibatches
from stanadapt.samplers.tempering.pseudo_group import require_names
from stanadapt.targets.target import Samplable, Target


def require_exact(target: Target, sampler: Sampler) -> None:
    """Raise StanadaptError where a sampler would be biased by the noise of an estimated density."""
    if not target.noise:
        return
    what = ""
    if sampler.uses_gradient:
        what = "follows gradients"
    elif sampler.tempering is not None:
        what = "raises the density to powers"
    elif not sampler.exact_on_estimates:
        what = "evaluates the density several times in one move"
    if what:
        usable = names_of(lambda s: s.uses_gradient is False and s.exact_on_estimates)
        raise StanadaptError(
            "settings",
            f"{sampler.name} {what}, but the density of {target.name} is an estimate "
            f"with noise {', '.join(target.noise)}. Use one that stays exact there "
            f"({usable}), or make the target without `noise` to sample both.",
        )


def require_batches(target: Samplable, sampler: Sampler) -> None:
    """Raise StanadaptError where a sampler knows nothing of the batches of `Minibatches`."""
    if isinstance(target, Minibatches) and not sampler.samples_batches:
        raise StanadaptError(
            "settings",
            f"{sampler.name} needs the density of all rows, but {target!r} estimates it from some: "
            f"sample the Target itself, or use {names_of(lambda s: s.samples_batches)}.",
        )


def require_threads(sampler: Sampler, settings: Any, threads_per_chain: int) -> None:
    """Raise StanadaptError where there are more threads per chain than moves to share."""
    if threads_per_chain == 1:
        return
    if sampler.threading is None:
        able = names_of(lambda s: s.threading)
        why = (
            f"{sampler.name} makes one move after the other, which is work for one thread per "
            f"chain. Use more chains, or a sampler with several moves per iteration ({able})"
        )
    else:
        most = sampler.threading.max_threads(settings)
        if threads_per_chain <= most:
            return
        why = (
            f"{sampler.name} with these settings has {most} moves per iteration: use no more "
            "threads"
        )
    raise StanadaptError("settings", f"threads_per_chain is {threads_per_chain}, but {why}.")


def require_pseudo_samples(target: Samplable, sampler: Sampler) -> None:
    """Raise StanadaptError where `save_pseudo` is asked for, but there are no pseudo-samples."""
    if target.target is target and sampler.extra_output is None:
        raise StanadaptError(
            "settings",
            f"save_pseudo keeps pseudo-samples, but {sampler.name} has none on {target.name}: "
            "leave it out, sample Extended(target), or use the sampler pseudo_extended.",
        )
    require_names(target.target)
