"""Chains of a sampler on the awkward target: made, run to the end, and read."""

from stanadapt.engine import checks
from stanadapt.engine.chain import run
from stanadapt.engine.checks import Length
from tests.helpers.sampler_settings import FASTER

__all__ = ["FASTER", "column", "finish", "make_chains"]


def make_chains(case, target, n=1, warmup=200, draws=300, thin=1, seed=1):
    """Return n chains of a case (name, settings), at random starts near the target's mass."""
    return checks.make_chains(case, target, Length(n, warmup, draws, thin), seed)


def finish(chains, chunk=None):
    """Run chains to their end, on two threads."""
    assert run(chains, 2, chunk=chunk) is False
    return chains


def column(chain, name):
    """Return one statistic of all sampling iterations, by name."""
    return chain.sampling.stats[:, chain.stat_names.index(name)]
