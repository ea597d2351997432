"""Targets whose density is only estimated: which parameters are the noise of the estimate.

A program estimates p(x) without bias by phat(x, u) with noise u ~ N(0, I), and writes down the
log density of both, log phat(x, u) + log N(u). A sampler without gradients then moves x, draws u
anew and accepts by the ratio of estimates (`points.proposed`): its x follow p(x) exactly.
"""

import re
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from stanadapt.errors import StanadaptError
from stanadapt.program import strip

# sd of the log estimate above which a chain sticks: about twice the optimum, which lies between
# 1.2 and 1.8 (Doucet et al. 2015, Biometrika 102; Sherlock et al. 2015, Annals of Statistics 43)
LARGEST_SD, LARGEST_Z = 3.0, 6.0
DRAWS = 30


class Estimate(NamedTuple):
    """How noisy a target's estimate is at one position.

    sd
        Standard deviation of the log estimate over its noise.
    log_means
        Log of the mean estimate under each of two seeds: equal, if the estimate is consistent.
    z
        Their difference in standard errors (delta method).

    """

    sd: float
    log_means: tuple[float, float]
    z: float


def noise_size(target: Any, names: tuple[str, ...]) -> int:
    """Return how many coordinates of a position are noise: the last ones.

    Raises
    ------
    StanadaptError
        Stage "settings" unless the named parameters are the program's last, unconstrained, and
        said to be standard normal.

    """
    declared = list(target.parameters)
    unknown = [name for name in names if name not in declared]
    if unknown:
        raise _wrong(
            f"{', '.join(unknown)} is no parameter of {target.name}; it has {', '.join(declared)}."
        )
    if len(names) == len(declared):
        raise _wrong(f"all parameters of {target.name} are noise: there is nothing to sample.")
    if set(declared[-len(names) :]) != set(names):
        raise _wrong(
            f"{', '.join(names)} must be declared after the other parameters of {target.name}, "
            f"whose order is {', '.join(declared)}. Move the declaration to the end of the block."
        )
    size = sum(int(np.prod(target.parameters[name].dimensions)) for name in names)
    rng = np.random.default_rng(17)
    position = rng.standard_normal(target.dim)
    flat = target.model.param_constrain(position)
    # an array of vectors is written in another order than it is read, which does no harm
    if not np.array_equal(np.sort(flat[flat.size - size :]), np.sort(position[-size:])):
        raise _wrong(
            f"{', '.join(names)} of {target.name} must be unconstrained (real, vector, matrix and "
            "arrays of them, without bounds, offset or multiplier)."
        )
    for name in names:
        _require_law(target, name)
    return size


def correlation(rho: Any) -> float:
    """Return rho as a float; StanadaptError unless it lies in [0, 1)."""
    try:
        number = float(rho)
    except (TypeError, ValueError):
        number = -1.0
    if not 0.0 <= number < 1.0:
        raise StanadaptError("settings", f"rho must be at least 0 and below 1, got {rho!r}.")
    return number


def _require_law(target: Any, name: str) -> None:
    """The law is believed, not measured: what the program says must be what is cancelled."""
    noise = rf"(?:{name}|(?:to_vector|to_array_1d)\s*\(\s*{name}\s*\))"
    law = r"(?:std_normal\s*\(\s*\)|normal\s*\(\s*0(?:\.0*)?\s*,\s*1(?:\.0*)?\s*\))"
    if not re.search(rf"(?<![\w.]){noise}\s*~\s*{law}\s*;", strip(target.program.code)):
        raise _wrong(
            f"the program must say that {name} is standard normal, by the statement "
            f"`{name} ~ std_normal();`, or `to_vector({name}) ~ std_normal();` for a matrix."
        )


def _wrong(message: str) -> StanadaptError:
    return StanadaptError("settings", f"noise: {message}")


def estimate(target: Any, position: np.ndarray, draws: int = 1000, seed: int = 0) -> Estimate:
    """Measure a target's estimate at one position.

    Parameters
    ----------
    target
        Made with `noise`.
    position
        Shape (dim,), unconstrained; its noise is not used.
    draws
        Estimates made under each of the two seeds.
    seed
        Of both.

    """
    if draws < 2:
        raise StanadaptError("settings", f"draws must be at least 2, got {draws}.")
    logs = np.stack([
        _logs(target, position, draws, np.random.default_rng(source))
        for source in np.random.SeedSequence(seed).spawn(2)
    ])  # fmt: skip
    means = logsumexp(logs, axis=1) - np.log(draws)
    with np.errstate(invalid="ignore", over="ignore"):
        relative = np.exp(logs - means[:, None])
        error = np.sqrt(np.sum(np.var(relative, axis=1, ddof=1) / draws))
        z = float(abs(means[0] - means[1]) / error) if error > 0 else 0.0
        sd = float(np.std(logs[np.isfinite(logs)], ddof=1)) if np.isfinite(logs).any() else np.nan
    return Estimate(sd, (float(means[0]), float(means[1])), z)


def _logs(target: Any, position: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    found, moved = np.empty(draws), target.dim - target.noise_size
    point = np.array(position, dtype=float)
    for i in range(draws):
        point[moved:] = rng.standard_normal(target.noise_size)
        found[i] = target.value(point) + 0.5 * np.sum(point[moved:] ** 2)
    return found


def complaints(target: Any, position: np.ndarray, seed: int) -> list[str]:
    """Sentences on an estimate that a chain would suffer from; from a few draws."""
    found, said = estimate(target, position, DRAWS, seed), []
    if not found.sd <= LARGEST_SD:
        said.append(
            f"the log density of {target.name} is estimated with a standard deviation of "
            f"{found.sd:.1f} where chain 1 starts; above {LARGEST_SD:.0f} chains stick. Average "
            "over more noise in the program, or correlate it (rho)."
        )
    if found.z > LARGEST_Z:
        said.append(
            f"the mean estimates of {target.name} under two seeds differ by {found.z:.0f} "
            "standard errors where chain 1 starts: is the estimate unbiased?"
        )
    return said
