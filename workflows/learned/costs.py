"""The cost of an effective draw in seconds, gradients and densities, with that of learning."""

from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from workflows import record

NOT_COUNTED = "–"
COSTS = (
    "ESS/s: after warm-up; 'all s': seconds of warm-up and of training are counted, compilation is "
    "not. Seconds are those of all chains together. ESS per gradient, and per density if no "
    "gradient is used: calls after warm-up; 'per call, all': gradients and densities of warm-up "
    "and training are counted too."
)
MISTUNED = (
    "The HMC of the paper had unit mass and a fixed step (0.1 and 10 leapfrogs in the plane; 0.005 "
    "and 40 on German), no tuning. Re-run with other steps and lengths in its own metric, HMC has "
    "2.5 to 12 times as many effective draws per gradient on the paper's regressions, and more "
    "with a diagonal mass: most of the published ratios in ESS/s come from that. Between modes "
    "that are separate no tuning helps it."
)


class Learning(NamedTuple):
    """Cost of learning before a fit, without its warm-up: of a network, or an approximation."""

    seconds: float = 0.0
    calls: int = 0


NOTHING = Learning()


def of_network(network: Any) -> Learning:
    """Return the cost of training a network."""
    return Learning(network.description["seconds"], network.description["n_density"])


def of_fit(fit: Any) -> Learning:
    """Return the cost of a fit from which something is learned."""
    calls = int(fit.attrs["n_gradients"]) + int(fit.attrs["n_density"])
    return Learning(record.seconds_of(fit), calls)


def line(
    method: str, fit: Any, ess: float, learning: Learning = NOTHING
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return a row of a table of text, and its numbers.

    ess
        Effective sample size of all chains together.
    """
    seconds = float(np.sum(results.attribute(fit, "sampling_seconds")))
    before = float(np.sum(results.attribute(fit, "warmup_seconds"))) + learning.seconds
    counts = {kind: int(results.attribute(fit, f"n_{kind}")) for kind in ("gradients", "density")}
    warmup = {
        kind: int(results.attribute(fit, f"n_{kind}_warmup", 0)) for kind in counts
    }  # fmt: skip
    spent = {kind: counts[kind] - warmup[kind] for kind in counts}
    numbers = {
        "method": method,
        "ess": ess,
        "ess_per_1000": 1000.0 * ess / draws_of(fit),
        "seconds": seconds,
        "learning_seconds": before,
        "calls": sum(spent.values()),
        "learning_calls": sum(warmup.values()) + learning.calls,
        "ess_per_second": ess / seconds,
        "ess_per_second_all": ess / (seconds + before),
        "ess_per_gradient": ess / spent["gradients"] if spent["gradients"] else np.nan,
        "ess_per_density": np.nan if spent["gradients"] else ess / spent["density"],
        "ess_per_call_all": ess / (sum(counts.values()) + learning.calls),
    }
    text = {
        "method": method,
        "from": "here",
        "ESS per 1000": number(numbers["ess_per_1000"]),
        "ESS/s": number(numbers["ess_per_second"]),
        "ESS/all s": number(numbers["ess_per_second_all"]),
        "ESS per gradient": number(numbers["ess_per_gradient"]),
        "ESS per density": number(numbers["ess_per_density"]),
        "ESS per call, all": number(numbers["ess_per_call_all"]),
        "learning s": number(before),
    }
    return text, numbers


def published(method: str, paper: str, ess_per_1000: float, ess_per_second: float) -> dict:
    """Return a row of published numbers, without the cost of training."""
    return {
        "method": method,
        "from": paper,
        "ESS per 1000": number(ess_per_1000),
        "ESS/s": number(ess_per_second),
    }


def draws_of(fit: Any) -> int:
    """Return the number of draws of all chains."""
    first = next(iter(results.dataset(fit, "posterior").data_vars.values()))
    return int(first.shape[0] * first.shape[1])


def number(value: float) -> str:
    """Return three digits, or a dash for a number that is not known."""
    if not np.isfinite(value):
        return NOT_COUNTED
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
