"""The lower bound on the log evidence, and its estimate, from weights of independent paths."""

from typing import Any

import numpy as np
from scipy.special import logsumexp

from stanadapt.kernels.variational.hamiltonian_path import LOWEST
from stanadapt.sampling.chain import Chain
from stanadapt.sampling.proposal_weights import on_weights
from stanadapt.targets.standardised import Standardised
from stanadapt.targets.target import Samplable


def on_paths(
    target: Samplable, chains: list[Chain], length: int
) -> tuple[dict[str, Any], list[str]]:
    """Return attributes on the weights of the paths that chains proposed, and what is wrong.

    `bound` is the mean log weight, at most the log evidence but for its Monte Carlo error
    `bound_error`; `bound_of_chains` that of each chain, which has trained its paths by itself.
    `log_evidence` is the log of the mean weight, with `log_evidence_error` by the delta method.
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
        return dict.fromkeys(names, float("nan"))
    rows = [row[np.isfinite(row)] for row in logs]
    means = np.array([row.mean() for row in rows])
    errors = [row.std(ddof=1) / row.size**0.5 for row in rows]
    evidence = float(logsumexp(logs) - np.log(logs.size))
    relative = np.exp(logs - evidence)
    return {
        "bound": float(means.mean()),
        "bound_error": float(np.linalg.norm(errors) / len(errors)),
        "bound_of_chains": means,
        "log_evidence": evidence,
        "log_evidence_error": float(relative.std(ddof=1) / logs.size**0.5),
    }


def _shift(target: Samplable, chain: Chain) -> float:
    """What the coordinates of the chain, and constants that gradients leave out, add to log Z."""
    volume = target.log_volume if isinstance(target, Standardised) else 0.0
    return volume + target.dropped_constant(chain.state.current.position)
