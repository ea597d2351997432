"""The group `tempering` of a result, and the sentences on a run that tempered."""

import numpy as np

from stanadapt import left_places, mode_volumes, results, tempering_report
from stanadapt.driver import Chain
from stanadapt.inits import unconstrained
from stanadapt.results import arviz_module
from stanadapt.target import Samplable

# as in comparisons
LARGEST_R_HAT = 1.05


def add_tempering(
    target: Samplable, chains: list[Chain], length: int, groups: results.Groups
) -> list[str]:
    """Add to the groups what chains learned; return what is doubtful, one sentence a kind."""
    found, name = chains[0].sampler, chains[0].sampler.name
    # values, without gradients, come with all constants
    where = chains[0].state.current.position
    constant = target.constant(where) if found.uses_gradient else 0.0
    learned = [found.learned(chain.state) for chain in chains]
    groups["tempering"] = tempering_report.group(learned, constant)
    said = tempering_report.sentences(name, groups["tempering"], groups["sample_stats"])
    said += _on_chains(name, chains, length)
    # the pseudo-extension of a program has places of another kind than its draws
    return said + (_on_modes(target, chains, groups) if target.target is target else [])


def _on_chains(name: str, chains: list[Chain], length: int) -> list[str]:
    """Whether chains agree, in every column and in the log density."""
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
        "some. Sample longer, lengthen warm-up, or give a reference (reference_law, prior_data); "
        "stanadapt.modes tells who was where."
    ]


def _on_modes(target: Samplable, chains: list[Chain], groups: results.Groups) -> list[str]:
    """Whether modes differ much in volume, or warm-up has seen places without a draw."""
    name, said = chains[0].sampler.name, []
    draws, draws_lp = _some_draws(target, chains)
    if not len(draws):
        return []
    if not target.noise_size:  # else the density is but an estimate, and has no modes
        said += mode_volumes.sentence(name, mode_volumes.log_volumes(target.evaluate, draws))
    places, lp = (groups["tempering"][n].values for n in ("short_chain", "short_chain_lp"))
    there = np.isfinite(lp)
    if there.any():
        count = left_places.left(places[there], lp[there], draws, draws_lp, target.value)
        said += left_places.sentence(name, count, int(there.sum()))
    return said


def _some_draws(target: Samplable, chains: list[Chain]) -> tuple[np.ndarray, np.ndarray]:
    """Positions, evenly spaced in each chain, shape (draw, dim), and their log density."""
    rows, lps = [], []
    for chain in chains:
        count = left_places.DRAWS // len(chains)
        kept = np.linspace(0, chain.sampling.rows - 1, count).astype(int)
        lps.append(chain.sampling.stats[kept, 0])
        rows.append(chain.sampling.constrained[kept])
    draws = unconstrained(target, np.concatenate(rows))
    fine = np.isfinite(draws).all(axis=1)
    return draws[fine], np.concatenate(lps)[fine]
