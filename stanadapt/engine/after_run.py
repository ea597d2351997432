"""The one hook by which a sampler reports after a run: attributes, messages and groups of a result.

A family of samplers keeps its reports in `samplers/<family>/findings.py`, apart from its compiled
code, so that a reworded message does not make Numba recompile the samplers:

    @reports_for(parallel_tempering.Settings, smc.Settings)
    def report(view: RunView) -> Findings: ...

A sampler in a file of its own may give the function as `after_run` when it is registered.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.protocol import REGISTRY


class Findings(NamedTuple):
    """What a sampler adds to a result.

    Attributes
    ----------
        By name, in the forms that netCDF attributes can hold.
    messages
        Notes for the user, each a `Message`; they are also given as warnings.
    groups
        Datasets, or arrays by name, by the name of their group.

    """

    attributes: Mapping[str, Any] = MappingProxyType({})
    messages: Sequence[str] = ()
    groups: Mapping[str, Any] = MappingProxyType({})


class RunView(NamedTuple):
    """What a sampler sees of a run that has ended.

    target
        What was sampled, in the coordinates of the chains.
    chains
        The chains that the result keeps.
    length
        Number of draws that it keeps of each.
    sample_stats
        Statistics of these draws by their name in the result, shape (chain, draw).

    """

    target: Any
    chains: list[Any]
    length: int
    sample_stats: dict[str, np.ndarray]

    @property
    def settings(self) -> Any:
        """Settings of the sampler, as the user gave them."""
        return self.chains[0].settings

    @property
    def sampler_name(self) -> str:
        """Name of the sampler."""
        return self.chains[0].sampler.name

    @property
    def dim(self) -> int:
        """Number of parameters that the sampler moves."""
        return self.chains[0].density.dim

    @property
    def progress(self) -> Any:
        """Where a pooled warm-up has ended; None for other samplers."""
        return self.chains[0].progress


def reports_for(*settings: type) -> Callable[[Callable], Callable]:
    """Let a function report after the runs of registered samplers, named by their `Settings`."""

    def attach(report: Callable) -> Callable:
        for each in settings:
            REGISTRY[each] = REGISTRY[each]._replace(after_run=report)
        return report

    return attach
