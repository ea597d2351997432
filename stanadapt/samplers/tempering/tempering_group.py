"""The group `tempering` of a result, and the messages on a run that tempered."""

from typing import Any

import numpy as np
import xarray as xr

from stanadapt import results
from stanadapt.engine.chain import Chain
from stanadapt.results import arviz_module
from stanadapt.samplers.tempering import (
    evidence_error,
    mode_volumes,
    particle_report,
    report,
    unvisited_modes,
)
from stanadapt.targets.standardized import Standardised
from stanadapt.targets.target import Samplable, Target

# as in diagnostics.compare
LARGEST_R_HAT = 1.05


def add_tempering(
    target: Samplable, chains: list[Chain], length: int, groups: results.Groups
) -> list[str]:
    """Add to the groups what chains learned; return one message per kind of doubt."""
    found, name = chains[0].sampler, chains[0].sampler.name
    # constants are dropped only where the density comes with its gradient
    position = chains[0].state.current.position
    constant = target.dropped_constant(position) if found.uses_gradient else 0.0
    assert found.tempering is not None  # of samplers without, nothing is asked here
    learned = [found.tempering.learned(chain.state) for chain in chains]
    if isinstance(target, Standardised):
        learned = [_in_original_coordinates(target, one) for one in learned]
    group, stats = report.group(learned, constant), groups["sample_stats"]
    evidence_error.add_errors(group)
    groups["tempering"] = group
    assert isinstance(stats, dict)
    if "ancestors" in group:
        messages = particle_report.particle_sentences(name, group, stats)
    else:
        messages = report.sentences(name, group, stats)
    messages += _on_chains(name, chains, length)
    # positions of a pseudo-extension are not those of its draws
    if not isinstance(target, Target | Standardised):
        return messages
    return messages + _on_modes(target.target, chains, group)


def _in_original_coordinates(target: Standardised, learned: dict[str, Any]) -> dict[str, Any]:
    """Translate what was learned in coordinates z, x = m + L z with a diagonal L.

    The reference is a density of z, that of x times |det L|: an integral over z of p^b p0^(1 - b)
    is |det L|^-b times that over x. Without a reference it is 1 / |det L| times that of p^b.
    """
    volume, found = target.log_volume, dict(learned)
    referred = np.isfinite(learned["log_evidence"])
    power = learned["temperature"] if referred else 1.0
    found["log_normalizer"] = learned["log_normalizer"] + power * volume
    found["log_evidence"] = learned["log_evidence"] + volume
    found["short_chain"] = target.original(learned["short_chain"])
    if "weighted_particle" in learned:
        found["weighted_particle"] = target.original(learned["weighted_particle"])
    if "reference_mean" in learned:
        found["reference_mean"] = target.original(learned["reference_mean"])
        found["reference_sd"] = learned["reference_sd"] * np.abs(target.factor[0])
    return found


def _on_chains(name: str, chains: list[Chain], length: int) -> list[str]:
    """Report chains that disagree, in any column or in the log density."""
    if len(chains) < 2 or length < 4:
        return []
    draws = np.stack([chain.sampling.constrained[:length] for chain in chains])
    columns = [*np.moveaxis(draws, 2, 0), np.stack([c.sampling.stats[:length, 0] for c in chains])]
    moving = [x for x in columns if np.isfinite(x).all() and np.ptp(x) > 0]
    largest = max((float(arviz_module().rhat(x)) for x in moving), default=1.0)
    if largest <= LARGEST_R_HAT:
        return []
    return [
        f"{name}: R-hat is {largest:.2f}: chains disagree on the weights of modes, or are stuck in "
        "some. Sample longer, lengthen warm-up, or give a reference distribution "
        "(reference_distribution, prior_data); stanadapt.modes shows which chain visited what."
    ]


def _on_modes(target: Target, chains: list[Chain], group: xr.Dataset) -> list[str]:
    """Report modes that differ much in volume, and regions that only warm-up visited."""
    name, messages = chains[0].sampler.name, []
    draws, draws_lp = _some_draws(target, chains)
    if not len(draws):
        return []
    if not target.noise_size:  # an estimated density cannot be climbed
        messages += mode_volumes.messages(name, mode_volumes.log_volumes(target.evaluate, draws))
    ends, lp = (group[n].values for n in ("short_chain", "short_chain_lp"))
    finite = np.isfinite(lp)
    if finite.any():
        count = unvisited_modes.count_unvisited(
            ends[finite], lp[finite], draws, draws_lp, target.value
        )
        messages += unvisited_modes.messages(name, count, int(finite.sum()))
    return messages


def _some_draws(target: Target, chains: list[Chain]) -> tuple[np.ndarray, np.ndarray]:
    """Positions, evenly spaced in each chain, shape (draw, dim), and their log density."""
    rows, lps = [], []
    for chain in chains:
        count = unvisited_modes.DRAWS // len(chains)
        kept = np.linspace(0, chain.sampling.rows - 1, count).astype(int)
        lps.append(chain.sampling.stats[kept, 0])
        rows.append(chain.sampling.constrained[kept])
    draws = target.unconstrain_rows(np.concatenate(rows))
    fine = np.isfinite(draws).all(axis=1)
    return draws[fine], np.concatenate(lps)[fine]
