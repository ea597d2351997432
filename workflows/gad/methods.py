"""Every method in the tables of Titsias and Dellaportas (2019), under the paper's name."""

from typing import Any, NamedTuple

import numpy as np

import stanadapt as sa

SAMPLERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gadMALAf": ("gad_mala", {}),
    "gadMALAe": ("gad_mala", {"exact": True}),
    "gadRWM": ("gad_rwm", {}),
    "AM": ("am", {}),
    "RWM": ("rwm", {}),
    "MALA": ("mala", {}),
    "HMC-5": ("hmc", {"leapfrogs": 5}),
    "HMC-10": ("hmc", {"leapfrogs": 10}),
    "HMC-20": ("hmc", {"leapfrogs": 20}),
}
NAMES = [*SAMPLERS, "NUTS"]
DEFAULT = "default"
# in 785 dimensions; the paper lets L move more slowly there
SLOWLY = {"learning_rate": 1e-5}
DIGITS: dict[str, tuple[str, dict[str, Any]] | None] = {
    "gadMALAf, dense": ("gad_mala", SLOWLY),
    "gadMALAf, rank 10": ("gad_mala", {**SLOWLY, "rank": 10}),
    "gadMALAf, diagonal": ("gad_mala", {**SLOWLY, "diagonal": True}),
    "MALA": SAMPLERS["MALA"],
    "HMC-20": SAMPLERS["HMC-20"],
    DEFAULT: None,
    "NUTS": None,
}
DEFAULT_CHAINS = 4


class Length(NamedTuple):
    """Iterations of one chain."""

    warmup: int
    draws: int


def draw(
    method: str, target: sa.Target, length: Length, seed: int, start: np.ndarray, engine: str
) -> Any:
    """Run one chain of a method from the unconstrained position `start`, shape (dim,).

    The default sampler learns from all its chains, so that it runs four, from separate starts.
    """
    plan: dict[str, Any] = {
        "chains": 1,
        "iter_warmup": length.warmup,
        "iter_sampling": length.draws,
        "seed": seed,
        "inits": start[np.newaxis],
        "show_progress": False,
    }
    if method == "NUTS":
        return sa.stan_nuts(target, backend=engine, **plan)
    if method == DEFAULT:
        plan |= {"chains": DEFAULT_CHAINS, "inits": None}
        return sa.sample(target, **plan)
    sampler, settings = {**DIGITS, **SAMPLERS}[method]
    return sa.sample(target, sampler, standardize=False, **plan, **settings)
