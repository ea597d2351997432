"""Stan's NUTS inside the embedded backend, under that backend's checks."""

import contextlib
import io
import re
from typing import Any

import numpy as np

from stanadapt.engine.plan import Plan
from stanadapt.errors import StanadaptError
from stanadapt.runs.stan_nuts.engine import STATISTICS, NutsRun, NutsSettings
from stanadapt.targets.stan.backends import stanli as backend
from stanadapt.targets.target import Target

SHARED = (
    "Stan's NUTS ran inside stanli, which shares its density with our samplers and so cannot "
    "confirm it; `stanadapt install-cmdstan` provides an independent one."
)


def run(
    target: Target, plan: Plan, settings: NutsSettings, positions: list[np.ndarray], status: Any
) -> NutsRun:
    """Sample from the given unconstrained positions; see `NutsRun`."""
    import stanli  # loads a 41 MB library: only if it is the engine

    status(f"Sampling {target.name} with the NUTS of stanli {backend.VERSION}")
    if target.backend != "stanli":
        backend.construct(target.program, target.data)  # raises where its checks fail
    printed = io.StringIO()
    with backend.guarded(), contextlib.redirect_stdout(printed):
        model = stanli.Model(stan_code=target.program.code, data=target.data, seed=plan.seed)
        try:
            fit = model.sample(
                chains=plan.chains, parallel_chains=plan.parallel_chains, seed=plan.seed,
                warmup=plan.iter_warmup, samples=plan.iter_sampling, thin=plan.thin,
                delta=settings.adapt_delta, max_depth=settings.max_treedepth, save_warmup=True,
                inits=np.stack(positions), refresh=plan.iter_warmup + plan.iter_sampling,
            )  # fmt: skip
        except RuntimeError as error:
            raise StanadaptError(
                "sampling", f"the embedded NUTS failed on {target.name}.", str(error)
            ) from None
    order = [stanli.SAMPLER_COLUMNS.index(name) for name in STATISTICS]
    return NutsRun(
        column_names=[name.replace("[", ".").replace(",", ".").rstrip("]") for name in fit.names],
        draws=fit.draws(),
        statistics=fit.sampler_stats[..., order],
        warmup_seconds=_seconds(printed, "Warm-up"),
        sampling_seconds=_seconds(printed, "Sampling"),
        compile_seconds=0.0,
        engine=f"stanli {backend.VERSION}",
        remarks=(SHARED,),
    )


def _seconds(printed: io.StringIO, phase: str) -> list[float]:
    """Time per chain, which stanli prints but does not return."""
    found = re.findall(rf"([0-9.]+) seconds \({phase}\)", printed.getvalue())
    return [float(seconds) for seconds in found]
