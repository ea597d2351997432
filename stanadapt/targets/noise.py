"""Targets with an estimated density (pseudo-marginal MCMC), and the noise of the estimate.

The program contains an unbiased estimate phat(x, u) of p(x) with noise u ~ N(0, I); its log density
is log phat(x, u) + log N(u). A sampler without gradients proposes x, redraws u and accepts by the
ratio of the estimates (`engine/points.py`). Its draws of x then have the exact distribution p(x).
"""

import re
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from stanadapt.errors import Message, StanadaptError, require_whole
from stanadapt.targets.stan.syntax import strip

# chains get stuck if the sd of the log estimate is larger; this is about twice the optimum, which
# lies between 1.2 and 1.8 (Doucet et al. 2015, Biometrika 102; Sherlock et al. 2015, Annals of
# Statistics 43)
LARGEST_SD, LARGEST_Z = 3.0, 6.0
DRAWS = 30


class Estimate(NamedTuple):
    """Properties of a target's estimate at one position."""

    sd: float  # standard deviation of the log estimate over its noise
    # Log of the mean estimate for each of two seeds. They differ only by chance if the estimate is
    # consistent.
    log_means: tuple[float, float]
    z: float  # difference of the two means in standard errors (delta method)


def noise_size(target: Any, names: tuple[str, ...]) -> int:
    """Return the number of noise coordinates, which are the last ones of a position.

    StanadaptError unless the named parameters are the last of the program, are unconstrained, and
    have a standard normal distribution in the model block.
    """
    declared = list(target.parameters)
    unknown = [name for name in names if name not in declared]
    if unknown:
        raise _wrong(
            f"{target.name} has no parameter {', '.join(unknown)}; it has {', '.join(declared)}."
        )
    if len(names) == len(declared):
        raise _wrong(
            f"{', '.join(names)} are all parameters of {target.name}, so nothing is left to sample."
        )
    if set(declared[-len(names) :]) != set(names):
        raise _wrong(
            f"{', '.join(names)} must be declared after the other parameters of {target.name}, "
            f"which are, in order, {', '.join(declared)}. Move the declaration to the end of the "
            "block."
        )
    size = sum(int(np.prod(target.parameters[name].dimensions)) for name in names)
    rng = np.random.default_rng(17)
    position = rng.standard_normal(target.dim)
    flat = target.model.param_constrain(position)
    # sorted, because Stan writes arrays of vectors in another order than it reads them
    if not np.array_equal(np.sort(flat[flat.size - size :]), np.sort(position[-size:])):
        raise _wrong(
            f"{', '.join(names)} of {target.name} must be unconstrained (real, vector, matrix and "
            "arrays of them, without bounds, offset or multiplier)."
        )
    for name in names:
        _require_standard_normal(target, name)
    return size


def require_correlation(rho: Any) -> float:
    """Return rho as a float; StanadaptError unless it lies in [0, 1)."""
    try:
        number = float(rho)
    except (TypeError, ValueError):
        number = -1.0
    if not 0.0 <= number < 1.0:
        raise StanadaptError("out_of_range", f"rho must be at least 0 and below 1, got {rho!r}.")
    return number


def _require_standard_normal(target: Any, name: str) -> None:
    """Require the normal term in the program, because its values are subtracted unchecked."""
    noise = rf"(?:{name}|(?:to_vector|to_array_1d)\s*\(\s*{name}\s*\))"
    distribution = r"(?:std_normal\s*\(\s*\)|normal\s*\(\s*0(?:\.0*)?\s*,\s*1(?:\.0*)?\s*\))"
    if not re.search(rf"(?<![\w.]){noise}\s*~\s*{distribution}\s*;", strip(target.program.code)):
        raise _wrong(
            f"the program must declare that {name} is standard normal, by the statement "
            f"`{name} ~ std_normal();`, or `to_vector({name}) ~ std_normal();` for a matrix."
        )


def _wrong(message: str) -> StanadaptError:
    return StanadaptError("invalid_noise", f"noise: {message}")


def estimate(target: Any, position: np.ndarray, draws: int = 1000, seed: int = 0) -> Estimate:
    """Measure the noise of a target's estimate at one position, shape (dim,).

    Its noise coordinates are ignored. Each of two seeds, which are derived from `seed`, has
    `draws` estimates, at least 2.
    """
    draws = require_whole("draws", draws, 2)
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
    logs, moved = np.empty(draws), target.dim - target.noise_size
    point = np.array(position, dtype=float)
    for i in range(draws):
        point[moved:] = rng.standard_normal(target.noise_size)
        logs[i] = target.value(point) + 0.5 * np.sum(point[moved:] ** 2)
    return logs


def noise_warnings(target: Any, position: np.ndarray, seed: int) -> list[Message]:
    """Return messages about an estimate that is too noisy or inconsistent, from a few draws."""
    noise, messages = estimate(target, position, DRAWS, seed), []
    if not noise.sd <= LARGEST_SD:
        text = (
            f"the log density of {target.name} is estimated with a standard deviation of "
            f"{noise.sd:.1f} at the initial value of chain 1; above {LARGEST_SD:.0f} chains get "
            "stuck. Average over more noise in the program, or correlate it (rho)."
        )
        messages.append(Message("noisy_estimate", text))
    if noise.z > LARGEST_Z:
        text = (
            f"the mean estimates of {target.name} for two seeds differ by {noise.z:.0f} standard "
            "errors at the initial value of chain 1: is the estimate unbiased?"
        )
        messages.append(Message("inconsistent_estimate", text))
    return messages
