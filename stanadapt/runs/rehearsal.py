"""The rehearsal of a run's result, before its first draw; see `results.rehearsal`."""

import json
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.registry import as_chosen
from stanadapt.errors import StanadaptError
from stanadapt.results import PSEUDO
from stanadapt.results.attributes import origin
from stanadapt.results.labels import phase_groups
from stanadapt.results.rehearsal import rehearse
from stanadapt.runs.result import SavedGroups, stat_labels
from stanadapt.targets.pseudo_samples import empty_group
from stanadapt.targets.target import Samplable


def rehearse_run(
    target: Samplable, sampler: Sampler, settings: Any, plan: Any, save: SavedGroups
) -> None:
    """Build, write and read a result of one draw, in memory.

    Raises
    ------
    StanadaptError
        "result_refused", if the result of the run could not be saved.

    """
    names = [name for name, _, _ in stat_labels(target, sampler)]
    attributes = {
        **target.description,
        "sampler": sampler.name,
        "settings": json.dumps(as_chosen(settings), default=str),
    }
    further = ["unconstrained_posterior"] if save.unconstrained else []
    pseudo = empty_group(target.target) if save.pseudo else {}
    rehearse_draws(target, plan, names, attributes, further, {PSEUDO: pseudo})


def rehearse_draws(
    target: Samplable,
    plan: Any,
    statistics: Sequence[str],
    attributes: Mapping[str, Any],
    further: Collection[str] = (),
    own: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Rehearse the result of draws from a target, by any sampler or engine.

    Parameters
    ----------
    target, plan
        The target and the lengths of the run.
    statistics
        Names of the sampler's statistics in the result.
    attributes
        Those of the result that are known before it is run.
    further
        Groups of positions on the unconstrained scale.
    own
        Groups of the sampler's own that are known before the run, with one draw.

    """
    program = target.target
    twice = sorted({name for name in statistics if list(statistics).count(name) > 1})
    if twice:
        raise StanadaptError(
            "result_refused",
            f"the sampler has two statistics of the name {twice[0]!r}: rename the one in its Info.",
        )
    draws = results.variables(program.column_names, np.zeros((1, 1, len(program.column_names))))
    stats = {name: np.zeros((1, 1)) for name in statistics}
    groups = phase_groups(program.labels, "", draws, stats)
    if plan.save_warmup:
        groups |= phase_groups(program.labels, "warmup_", draws, stats)
    groups |= {name: {"position": np.zeros((1, 1, program.dim))} for name in further}
    groups |= {**own, **program.data_groups}
    known = {
        **origin(program, plan),
        "backend": program.backend,
        "backend_reason": program.backend_reason,
        "noise": list(program.noise),
        **attributes,
    }
    rehearse(groups, known)
