"""Which samplers are worth a trial on a target, and which after the first trials."""

from typing import Any, NamedTuple

from stanadapt.runs.choose_sampler import DEFAULT
from stanadapt.targets.target import Target

# programs of more parameters are spared what works with a dense matrix
MOST_FOR_GAD = 500
TEMPERING = "simulated_tempering", "parallel_tempering", "pseudo_extended"
CAREFUL = 0.95  # target acceptance rate where trajectories diverged


class Candidate(NamedTuple):
    """A sampler with the settings that a trial gives it."""

    sampler: str
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """Its row in the table."""
        chosen = "".join(f", {name}={value}" for name, value in self.settings.items())
        return f"{self.sampler}{chosen}"


def first_candidates(target: Target, without_gradient: str) -> list[Candidate]:
    """Samplers in the order of their trials.

    without_gradient says why the gradient is of no use; "" where it is.
    """
    if target.noise:
        names = ["am", "kameleon", "rwm"]
    elif without_gradient:
        names = ["am", "pooled_am", "kameleon"]
    elif target.dim > MOST_FOR_GAD:
        names = [DEFAULT, "nuts", "hmc"]
    else:
        names = [DEFAULT, "gad_hmc", "nuts", "gad_mala"]
    return [Candidate(name, {}) for name in names]


def for_many_modes(without_gradient: str) -> list[Candidate]:
    """Samplers for chains that stay in separate regions."""
    chosen = {"kernel": "random_walk"} if without_gradient else {}
    return [Candidate(name, dict(chosen)) for name in TEMPERING]


def for_divergences() -> list[Candidate]:
    """Samplers for trajectories that diverged: shorter steps."""
    return [Candidate("nuts", {"target_accept": CAREFUL})]


def is_answer(candidate: Candidate) -> bool:
    """Whether it is tried only because of what the trials before it showed."""
    return candidate.sampler in TEMPERING or candidate in for_divergences()
