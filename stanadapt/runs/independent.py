"""Independent draws from a program without parameters: simulated data, prior predictive checks."""

import copy
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.draw_checks import FIXED_PARAM
from stanadapt.diagnostics.verdict import judge
from stanadapt.engine.interrupts import uninterrupted
from stanadapt.engine.plan import make_plan
from stanadapt.engine.protocol import AUTO
from stanadapt.errors import Message, StanadaptError, warn
from stanadapt.results.attributes import origin
from stanadapt.results.labels import Labels, phase_groups
from stanadapt.runs.quantities import compute, streams
from stanadapt.runs.stopping_rule import require_limits
from stanadapt.targets.target import Target

DRAWS = 1000
# arguments of `sample` that mean nothing here
UNUSED = (
    "inits", "warm_start", "until_ess", "until_mcse", "standardize", "save", "run", "executor",
)  # fmt: skip
# distinguishes seeds of these draws from those of chains
STREAM = 0x66697865


def independent_draws(
    target: Target, sampler: Any, settings: Mapping[str, Any], asked: SimpleNamespace
) -> Any:
    """Return draws of the generated quantities, as CmdStan's sampler `fixed_param`.

    `asked` has the keyword arguments of `sample`. StanadaptError "no_parameters" for a named
    sampler, or an argument that only samplers use; "nothing_to_generate" if the program computes
    nothing.
    """
    _require_suitable(target, sampler, settings, asked)
    require_limits(None, None, asked.max_minutes, None)
    plan = make_plan(
        chains=asked.chains, parallel_chains=asked.parallel_chains, iter_warmup=0,
        iter_sampling=DRAWS if asked.iter_sampling is None else asked.iter_sampling,
        thin=asked.thin, seed=asked.seed, save_warmup=False,
        show_progress=bool(asked.show_progress),
    )  # fmt: skip
    began = time.perf_counter()
    found = compute(
        target, lambda chain, rows: np.empty((rows.stop - rows.start, 0)), plan.draws,
        streams(plan.seed, STREAM, plan.chains), max_minutes=asked.max_minutes,
        threads=plan.parallel_chains, show_progress=plan.show_progress,
    )  # fmt: skip
    with uninterrupted():
        seconds = time.perf_counter() - began
        notes, lost = found.failure("draws"), int((~np.isfinite(found.columns)).any(-1).sum())
        if lost and not notes:
            text = f"generated quantities are not finite at {lost} draws."
            notes.append(Message("failed_quantities", text))
        if found.stopped:
            text = f"sampling was {found.stopped}, after {found.columns.shape[1]} draws per chain."
            notes.append(Message("ended_early", text))
        for note in notes:
            warn(note)
        attributes = {
            **origin(target, plan),
            "sampler": FIXED_PARAM,
            "sampler_reason": "the program has no parameters",
            **{"exact": True, "settings": "{}"},
            "backend": target.backend,
            "backend_reason": target.backend_reason,
            "backend_version": target.backend_version,
            "warmup_seconds": [0.0] * plan.chains,
            "sampling_seconds": [seconds / plan.chains] * plan.chains,
            "compile_seconds": target.compile_seconds,
            **dict.fromkeys(("n_gradients", "n_gradients_warmup", "n_density", "n_failed"), 0),
            "n_failed_quantities": found.failed,
            "interrupted": found.stopped == "interrupted",
            "chains_kept": list(range(1, plan.chains + 1)),
            "notes": notes,
        }
        return judge(results.build(_groups(target, found.columns), attributes))


def _require_suitable(
    target: Target, sampler: Any, settings: Mapping[str, Any], asked: SimpleNamespace
) -> None:
    values = {name: getattr(asked, name) for name in UNUSED}
    given = [
        name for name, x in values.items() if x is not None and not (name == "save" and x == ())
    ]
    given += [name for name in settings if name != "threads_per_chain"]  # any number draws the same
    given += ["sampler"] if not isinstance(sampler, str) or sampler != AUTO else []
    if given:
        raise StanadaptError(
            "no_parameters",
            f"{target.name} has no parameters: its draws are independent, and no sampler moves "
            f"them. Leave out {', '.join(given)}; or, if it should have parameters, check the data "
            "that set their sizes.",
        )
    if not target.column_names:
        raise StanadaptError(
            "nothing_to_generate",
            f"{target.name} has neither parameters nor generated quantities: there is nothing to "
            "draw.",
        )


def _groups(target: Target, columns: np.ndarray) -> results.Groups:
    """Return the groups; predictions alone are the posterior, which every fit has."""
    drawn = results.variables(target.column_names, columns, target.program.integers)
    stats = {"lp": np.zeros(columns.shape[:2])}
    groups = phase_groups(target.labels, "", drawn, stats)
    if not len(groups["posterior"]):
        named = Labels(target.labels.dims, target.labels.coords)
        groups = phase_groups(named, "", drawn, stats)
    return groups | copy.deepcopy(target.data_groups)
