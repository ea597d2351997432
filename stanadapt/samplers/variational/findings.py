"""Reports of the variational samplers: importance weights, long stays, the bound on the evidence.

After a run of variational_mcmc, new draws are made from each chain's proposal distribution q, and
their weights p / q are examined: a chain stays at points with large weights, and their Pareto k
shows how heavy the tail of these weights is, and hence how long such stays may be. The paths of
hvi carry weights already, which also give a lower bound on the log evidence and an estimate of it.

References
----------
Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25(72):
with a tail of Pareto k above 1/2 the variance of weights is infinite.
"""

from typing import Any

import numpy as np
from scipy.special import logsumexp

from stanadapt import results
from stanadapt.diagnostics.draw_checks import longest_run
from stanadapt.diagnostics.importance import GOOD, HIGHEST
from stanadapt.engine.after_run import Findings, RunView, reports_for
from stanadapt.engine.chain import Chain
from stanadapt.errors import Message
from stanadapt.samplers.variational import hvi, variational_mcmc
from stanadapt.samplers.variational.gaussian import Gaussian, log_densities
from stanadapt.samplers.variational.hamiltonian_path import LOWEST
from stanadapt.targets.target import Samplable

DRAWS = 2000
# largest acceptable share of the total weight for one of these draws, and longest stay as a share
# of a chain; stays of at most SHORT draws are not reported
LARGEST_SHARE, LONGEST_STAY, SHORT = 0.1, 0.01, 20


@reports_for(variational_mcmc.Settings)
def report_proposals(view: RunView) -> Findings:
    """Report the importance weights of each chain's proposal distribution, and long stays."""
    weights = [_log_weights(view.target, i, chain) for i, chain in enumerate(view.chains)]
    remedy = "approximation='full_rank', kernel='mixture' or degrees above 0 if these are not set"
    return Findings(*examine_weights(view.chains, weights, view.length, remedy))


def examine_weights(
    chains: list[Chain], weights: list[np.ndarray], length: int, remedy: str
) -> tuple[dict[str, Any], list[str]]:
    """Return attributes and notes from log weights of independent proposals of each chain.

    remedy names settings of the sampler that bring its proposals closer to the posterior.
    """
    k = np.array([results.pareto_smoothed(w)[1] for w in weights])
    # all weights are zero if the density failed at each draw
    sums = [np.exp(w - w.max()).sum() if np.isfinite(w.max()) else 1.0 for w in weights]
    shares, draws = 1.0 / np.array(sums), [chain.sampling.constrained[:length] for chain in chains]
    runs = [longest_run((x[1:] == x[:-1]).all(axis=1)) for x in draws]
    stays = (1 + np.array(runs)) * chains[0].plan.thin
    attributes = {"proposal_pareto_k": k, "proposal_largest_weight": shares, "longest_stay": stays}
    notes = _note_weights(chains[0], k, shares, len(weights[0]), remedy)
    return attributes, [*notes, *_note_stays(chains[0], stays, length)]


def _log_weights(target: Samplable, number: int, chain: Chain) -> np.ndarray:
    """Return log weights of draws from a chain's q, up to a constant; -inf if the density fails."""
    fitted, degrees = chain.state.q, chain.compiled_settings.degrees
    q = Gaussian(fitted.location, fitted.factor)
    rng = np.random.default_rng((chain.plan.seed, number, DRAWS))
    z = rng.standard_normal((DRAWS, q.dim))
    if degrees:
        z *= np.sqrt(degrees / rng.chisquare(degrees, (DRAWS, 1)))
    distance = np.sum(z**2, axis=1)
    log_q = -0.5 * distance
    if degrees:
        log_q = -0.5 * (degrees + q.dim) * np.log1p(distance / degrees)
    log_density = log_densities(target.density(number), q.place(z))
    return np.where(np.isfinite(log_density), log_density - log_q, -np.inf)


def _note_weights(
    chain: Chain, k: np.ndarray, shares: np.ndarray, count: int, remedy: str
) -> list[str]:
    worst = int(np.argmax(np.where(np.isnan(k), np.inf, k)))
    # k of one chain is too uncertain; a q that failed shows in its largest weight
    if np.median(k) <= HIGHEST and shares.max() <= LARGEST_SHARE:
        return []
    text = (
        f"{chain.sampler.name}: the distribution of its independent proposals misses a part of the "
        f"posterior. The Pareto k of its importance weights is {k[worst]:.2f} in chain {worst + 1} "
        f"(above {HIGHEST}, importance-weighted averages are unreliable, and a chain may stay in "
        f"one place for very long), and the largest of {count} weights is {shares.max():.0%} of "
        f"their sum. Use {remedy}; otherwise another sampler."
    )
    return [Message("poor_proposals", text)]


def _note_stays(chain: Chain, stays: np.ndarray, length: int) -> list[str]:
    worst, total = int(np.argmax(stays)), length * chain.plan.thin
    if stays[worst] <= max(LONGEST_STAY * total, SHORT * chain.plan.thin):
        return []
    text = (
        f"{chain.sampler.name}: chain {worst + 1} did not move for {stays[worst]:,} of {total:,} "
        "iterations: it was in a region with more posterior mass than the approximation gives it. "
        "Means and intervals depend on how often that happened."
    )
    return [Message("long_stay", text)]


@reports_for(hvi.Settings)
def report_paths(view: RunView) -> Findings:
    """Report the bound and the estimate of the evidence from the weights of the paths.

    `bound` is the mean log weight, which apart from its Monte Carlo error `bound_error` is at most
    the log evidence; `bound_of_chains` is the mean for each chain, since each has trained its own
    paths. `log_evidence` is the log of the mean weight, with `log_evidence_error` by the delta
    method: NaN if the weights are too heavy-tailed, and `log_evidence_error_reason` is the reason.
    """
    chains, logs = view.chains, view.sample_stats["log_weight"]
    failed = logs <= LOWEST
    # the volume of the chains' coordinates, and constants that gradients drop
    position = chains[0].state.current.position
    shift = view.target.log_volume + view.target.dropped_constant(position)
    logs = np.where(failed, -np.inf, logs) + shift
    remedy = "approximation='full_rank' or more transitions"
    attributes, notes = examine_weights(chains, list(logs), view.length, remedy)
    attributes |= bound_and_evidence(logs)
    if failed.any():
        text = (
            f"{chains[0].sampler.name}: the density failed on {failed.sum()} of {failed.size} "
            "paths, which makes the bound on the log evidence infinitely low; `bound` is that of "
            "the others."
        )
        notes.append(Message("failed_paths", text))
    return Findings(attributes, notes)


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
    relative, doubt = np.exp(logs - evidence), _doubt_tail(logs.ravel())
    error = float(relative.std(ddof=1) / logs.size**0.5)
    return {
        "bound": float(means.mean()),
        "bound_error": float(np.linalg.norm(errors) / len(errors)),
        "bound_of_chains": means,
        "log_evidence": evidence,
        "log_evidence_error": float("nan") if doubt else error,
        "log_evidence_error_reason": doubt,
    }


def _doubt_tail(logs: np.ndarray) -> str:
    """Return why these log weights do not give the error of their mean; "" if they do.

    Runs that miss the large weights look best: in 100 runs with weights of k = 0.65, k was
    estimated to be below 1/2 in 21, and in these the mean square of standardized errors was 7.
    Hence the standard error of k, (1 + k) over the root of the number of weights in the tail, is
    added.
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
