"""The `report` of a sampler after a run: attributes, messages and groups of a result.

The file of a sampler defines `report(view)`. A family with long reports, or with one for several
samplers, keeps them in `samplers/<family>/findings.py`:

    @reports_for(parallel_tempering.Settings, smc.Settings)
    def report(view: RunView) -> Findings: ...
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.protocol import REGISTRY
from stanadapt.errors import Message


class Findings(NamedTuple):
    """Additions of a sampler to a result.

    Attributes
    ----------
    attributes
        Attributes of the result by name: numbers, strings, or lists of them.
    messages
        Notes for the user, each a `Message`; they are also given as warnings.
    groups
        Groups of the result by name, each a dataset or a mapping of names to arrays.
    """

    attributes: Mapping[str, Any] = MappingProxyType({})
    messages: Sequence[str] = ()
    groups: Mapping[str, Any] = MappingProxyType({})


class RunView(NamedTuple):
    """A run that has ended, as the `report` of its sampler sees it.

    Attributes
    ----------
    target
        The target, in the coordinates of the chains.
    chains
        The chains that the result keeps.
    length
        Number of draws of each chain that the result keeps.
    sample_stats
        Statistics of these draws by their name in the result, shape (chain, draw).
    with_edges
        Coordinates with a hard edge: these do not drift without bound.
    """

    target: Any
    chains: list[Any]
    length: int
    sample_stats: dict[str, np.ndarray]
    with_edges: frozenset[int] = frozenset()

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

    def positions(self, most: int) -> np.ndarray:
        """Return draws of all chains on the program's unconstrained scale, thinned to about `most`.

        Shape (m, dim). Draws that rounding has put on a boundary are NaN.
        """
        count = min(self.length, most // len(self.chains) + 1)
        each = np.linspace(0, self.length - 1, count).astype(int)
        rows = np.concatenate([chain.sampling.constrained[each] for chain in self.chains])
        return self.target.target.unconstrain_rows(rows)

    @property
    def progress(self) -> Any:
        """State of a pooled warm-up at its end; None for other samplers."""
        return self.chains[0].progress


def note(text: str) -> Message:
    """Return a message for `Findings.messages`, under a code that all authors share.

    Parameters
    ----------
    text
        The observation and the remedy, in full.
    """
    return Message("sampler_note", text)


def reports_for(*settings: type) -> Callable[[Callable], Callable]:
    """Register a function as the `report` of samplers, given by their classes `Settings`."""

    def attach(report: Callable) -> Callable:
        for each in settings:
            REGISTRY[each] = REGISTRY[each]._replace(report=report)
        return report

    return attach
