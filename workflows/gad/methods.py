"""Every method in the tables of Titsias and Dellaportas (2019), under the paper's name.

All but one have preset=titsias2019, with which AM has the rates of the authors' programs: the
weight of a position in the covariance is 5e-4 / (1 + t / 5000), that in the mean 0.01, and L starts
as the identity. Their text has 1e-3 / (1 + t / 4000) for both, as `am` has without a preset. On
Neal's Gaussian alone, L is diagonal in their programs. NUTS has a unit metric and 500 iterations of
warm-up, in which it tunes its step size.
"""

from typing import Any, NamedTuple

import numpy as np

import stanadapt as sa

PRESET = {"preset": "titsias2019"}
SAMPLERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gadMALAf": ("gad_mala", {}),
    "gadMALAe": ("gad_mala", {"exact": True}),
    "gadRWM": ("gad_rwm", {}),
    "AM": ("am", {}),
    "AM, rates of the text": ("am", {"preset": None, "standardize": False}),
    "RWM": ("rwm", {}),
    "MALA": ("mala", {}),
    "HMC-5": ("hmc", {"leapfrogs": 5}),
    "HMC-10": ("hmc", {"leapfrogs": 10}),
    "HMC-20": ("hmc", {"leapfrogs": 20}),
}
NAMES = [*SAMPLERS, "NUTS"]
DEFAULT = "default"
# targets on which AM has a diagonal L
DIAGONAL = ("neal",)
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
# samplers that learn a factor of their proposal
LEARNED = ("gad_mala", "gad_rwm", "am")


class Length(NamedTuple):
    """Iterations of one chain."""

    warmup: int
    draws: int


def draw(
    method: str,
    target: sa.Target,
    length: Length,
    seed: int,
    start: np.ndarray,
    engine: str,
    keep: bool = False,
) -> Any:
    """Run one chain of a method from the unconstrained position `start`, shape (dim,).

    `keep` also saves warm-up and the factor that was learned. The default sampler learns from all
    its chains, so that it runs four, from separate starts.
    """
    plan: dict[str, Any] = {
        "chains": 1,
        "iter_warmup": length.warmup,
        "iter_sampling": length.draws,
        "seed": seed,
        "inits": start[np.newaxis],
        "show_progress": False,
        "save_warmup": keep,
    }
    if method == "NUTS":
        return sa.stan_nuts(target, backend=engine, metric="unit_e", **plan)
    if method == DEFAULT:
        plan |= {"chains": DEFAULT_CHAINS, "inits": None}
        return sa.sample(target, **plan)
    sampler, settings = settings_of(method, target)
    if keep and sampler in LEARNED:
        settings = {**settings, "save_factor": True}
    return sa.sample(target, sampler, **plan, **settings)


def settings_of(method: str, target: sa.Target) -> tuple[str, dict[str, Any]]:
    """Return a method's sampler and settings on a target."""
    sampler, own = {**DIGITS, **SAMPLERS}[method]
    settings = {**PRESET, **own}
    if method == "AM":
        settings = {**settings, "diagonal": target.name in DIAGONAL}
    return sampler, settings
