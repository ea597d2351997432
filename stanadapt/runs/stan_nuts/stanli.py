"""Stan's NUTS inside the embedded backend, under that backend's checks.

A file of its own, as the other engine is in `cmdstan.py`: each imports its library only when used.
"""

import contextlib
import io
import re
from typing import Any

import numpy as np

from stanadapt.engine.plan import Plan
from stanadapt.errors import Message, StanadaptError
from stanadapt.results.cmdstan_header import STATISTICS
from stanadapt.runs.stan_nuts.engine import NutsRun, NutsSettings, counted, dotted
from stanadapt.targets.stan import toolchain
from stanadapt.targets.stan.backends import stanli as backend
from stanadapt.targets.stan.backends.refusals import refused_by
from stanadapt.targets.target import Target


def shared(target: Target) -> Message:
    """Return the note that this engine's density is ours, with the way to an independent one."""
    text = (
        "Stan's NUTS ran inside stanli, which shares its density with our samplers and so cannot "
        "confirm it; "
    )
    installed = toolchain.cmdstan()
    if installed is None:
        text += "`stanadapt install-cmdstan` installs an independent one."
    elif refused_by(installed, target.program):
        text += f"CmdStan {installed.version} is independent, but too old for the program."
    else:
        text += "backend='cmdstan' is independent."
    return Message("embedded_nuts", text)


def run(
    target: Target, plan: Plan, settings: NutsSettings, positions: list[np.ndarray], status: Any
) -> NutsRun:
    """Sample from the given unconstrained positions; see `NutsRun`."""
    import stanli  # a library of 41 MB, loaded only if this engine is used

    if target.backend != "stanli":
        backend.construct(target.program, target.checked)  # raises if its checks fail
    printed, length = io.StringIO(), plan.iter_warmup + plan.iter_sampling
    each = max(length // 50, 1)
    text = f"Sampling {target.name} with the NUTS of stanli {backend.installed()}"
    progress = counted(status, text, plan, lambda: each * printed.getvalue().count("Iteration:"))
    with backend.guarded(), contextlib.redirect_stdout(printed), progress:
        model = stanli.Model(stan_code=target.program.code, data=target.data, seed=plan.seed)
        try:
            fit = model.sample(
                chains=plan.chains, parallel_chains=plan.parallel_chains, seed=plan.seed,
                warmup=plan.iter_warmup, samples=plan.iter_sampling, thin=plan.thin,
                delta=settings.adapt_delta, max_depth=settings.max_treedepth, save_warmup=True,
                inits=np.stack(positions), refresh=each,
                metric=settings.metric,
            )  # fmt: skip
        except RuntimeError as error:
            raise StanadaptError(
                "nuts_failed", f"the embedded NUTS failed on {target.name}.", str(error)
            ) from None
    order = [stanli.SAMPLER_COLUMNS.index(name) for name in STATISTICS]
    return NutsRun(
        column_names=dotted(fit.names),
        draws=fit.draws(),
        statistics=fit.sampler_stats[..., order],
        warmup_seconds=_seconds(printed, "Warm-up"),
        sampling_seconds=_seconds(printed, "Sampling"),
        compile_seconds=0.0,
        engine=f"stanli {backend.installed()}",
        remarks=(shared(target),),
    )


def _seconds(printed: io.StringIO, phase: str) -> list[float]:
    """Seconds per chain, which stanli prints but does not return."""
    matches = re.findall(rf"([0-9.]+) seconds \({phase}\)", printed.getvalue())
    return [float(seconds) for seconds in matches]
