"""Where a result comes from: the attributes of every result, whichever sampler drew it."""

import json
from importlib.metadata import version
from typing import Any

from stanadapt.engine.plan import Plan
from stanadapt.targets.stan import data as stan_data
from stanadapt.targets.target import Target

RECORDED = ("numpy", "numba", "bridgestan", "stanli", "arviz")


def origin(target: Target, plan: Plan) -> dict[str, Any]:
    """Program, data, plan and versions, as attributes of a result."""
    return {
        "inference_library": "stanadapt",
        "inference_library_version": version("stanadapt"),
        "versions": json.dumps({name: version(name) for name in RECORDED}),
        "model": target.name,
        "program_hash": target.program.hash,
        "data_hash": stan_data.digest(target.data),
        "parameters": json.dumps([n for n in target.parameters if n not in target.noise]),
        **{name: getattr(plan, name) for name in ("iter_warmup", "iter_sampling", "thin", "seed")},
    }
