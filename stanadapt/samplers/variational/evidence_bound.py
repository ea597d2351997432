"""The lower bound on the log evidence, and its estimate, from weights of independent paths.

References
----------
Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25(72):
with a tail of Pareto k above 1/2 the variance of weights is infinite.

"""

from typing import Any

import numpy as np
from scipy.special import logsumexp

from stanadapt import results
from stanadapt.diagnostics.importance import GOOD
from stanadapt.engine.chain import Chain
from stanadapt.samplers.variational.hamiltonian_path import LOWEST
from stanadapt.samplers.variational.proposal_weights import on_weights
from stanadapt.targets.standardized import Standardised
from stanadapt.targets.target import Samplable


def on_paths(
    target: Samplable, chains: list[Chain], length: int
) -> tuple[dict[str, Any], list[str]]:
    """Return attributes on the weights of the paths that chains proposed, and what is wrong.

    `bound` is the mean log weight, at most the log evidence but for its Monte Carlo error
    `bound_error`; `bound_of_chains` that of each chain, which has trained its paths by itself.
    `log_evidence` is the log of the mean weight, with `log_evidence_error` by the delta method, NaN
    where the weights do not tell it, for a reason that `log_evidence_error_reason` gives.
    """
    column = chains[0].stat_names.index("log_weight")
    logs = np.stack([chain.sampling.stats[:length, column] for chain in chains])
    failed = logs <= LOWEST
    logs = np.where(failed, -np.inf, logs) + _shift(target, chains[0])
    attributes, sentences = on_weights(chains, list(logs), length)
    attributes |= bound_and_evidence(logs)
    if failed.any():
        sentences.append(
            f"{chains[0].sampler.name}: the density failed on {failed.sum()} of {failed.size} "
            "paths, which makes the bound on the log evidence infinitely low; `bound` is that of "
            "the others."
        )
    return attributes, sentences


def bound_and_evidence(logs: np.ndarray) -> dict[str, Any]:
    """Bound and estimate of the log evidence from log weights, shape (chain, path)."""
    if np.isfinite(logs).sum(axis=1).min() < 2:
        names = ("bound", "bound_error", "log_evidence", "log_evidence_error")
        reason = "fewer than two paths of a chain have a weight"
        return {**dict.fromkeys(names, float("nan")), "log_evidence_error_reason": reason}
    rows = [row[np.isfinite(row)] for row in logs]
    means = np.array([row.mean() for row in rows])
    errors = [row.std(ddof=1) / row.size**0.5 for row in rows]
    evidence = float(logsumexp(logs) - np.log(logs.size))
    relative, doubt = np.exp(logs - evidence), _on_tail(logs.ravel())
    error = float(relative.std(ddof=1) / logs.size**0.5)
    return {
        "bound": float(means.mean()),
        "bound_error": float(np.linalg.norm(errors) / len(errors)),
        "bound_of_chains": means,
        "log_evidence": evidence,
        "log_evidence_error": float("nan") if doubt else error,
        "log_evidence_error_reason": doubt,
    }


def _on_tail(logs: np.ndarray) -> str:
    """Why these log weights do not tell the error of their mean; "" if they do.

    Runs that miss the large weights look best: of 100 runs whose weights have k = 0.65, k was
    estimated to be below 1/2 in 21, where the mean square of standardised errors was 7. Hence the
    standard error of k, (1 + k) over the root of the number of weights in the tail, is added.
    """
    k = float(results.pareto_smoothed(logs)[1])
    error = (1.0 + max(k, 0.0)) / np.sqrt(min(0.2 * logs.size, 3.0 * np.sqrt(logs.size)))
    if k + error < GOOD:
        return ""
    return (
        f"the Pareto k of the weights is {k:.2f}, with a standard error of {error:.2f}, and not "
        f"clearly below {GOOD}, above which their variance is infinite: raise transitions, or "
        "iter_sampling"
    )


def _shift(target: Samplable, chain: Chain) -> float:
    """What the coordinates of the chain, and constants that gradients leave out, add to log Z."""
    volume = target.log_volume if isinstance(target, Standardised) else 0.0
    return volume + target.dropped_constant(chain.state.current.position)
