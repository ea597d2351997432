"""The chains of a run, at their starting positions, with memory for their draws.

Memory is checked before the first draw: a system may promise more than it has, and end the program
when the memory is used. Draws of hours would be lost without a message.
"""

from typing import Any, NamedTuple

import numpy as np
import psutil

from stanadapt.engine.chain import Chain, ChainDesign, extra_size
from stanadapt.engine.density import (
    FAILED_CALLS,
    GRADIENT_CALLS,
    RECORDED_CALLS,
    VALUE_CALLS,
    Density,
)
from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.starts import Cost
from stanadapt.engine.warmup import NO_BOUNDS
from stanadapt.errors import Message, StanadaptError, warn
from stanadapt.samplers.whitened.block_structure import MOST_COORDINATES
from stanadapt.samplers.whitened.sparse_block import MOST_BOUNDED, MOST_IN_SPARSE_BLOCK
from stanadapt.targets.declared_bounds import declared_bounds
from stanadapt.targets.target import Samplable

COUNTED = [VALUE_CALLS, GRADIENT_CALLS, FAILED_CALLS]


class Start(NamedTuple):
    """In which coordinates chains run, where they start, and the cost of that."""

    target: Samplable  # as the user gave it, or in standardized coordinates
    positions: list[np.ndarray]  # one per chain, in the coordinates of `target`
    calls: np.ndarray  # evaluations so far: values, gradients, failures; shape (chain, 3)
    seconds: np.ndarray  # by the clock, and of a processor; shape (chain, 2)
    compile_seconds: float  # of compiling the sampler that learned scales
    description: dict[str, Any]  # attributes of the result
    notes: tuple[Message, ...] = ()  # of the result

    @classmethod
    def free(
        cls, target: Samplable, positions: list[np.ndarray], description: dict[str, Any]
    ) -> "Start":
        """Return a start that has cost nothing so far."""
        chains = len(positions)
        calls, seconds = np.zeros((chains, 3), np.int64), np.zeros((chains, 2))
        return cls(target, positions, calls, seconds, 0.0, description)

    def counted(self, density: Density, chain: int) -> Density:
        """Let a density's counters begin with the cost of this chain's pre-run."""
        density.calls[COUNTED] = self.calls[chain]
        density.calls[RECORDED_CALLS] = self.calls[chain, :2].sum()
        return density

    def after(self, cost: Cost) -> "Start":
        """Return the same start, with the cost of its preparation, which counts as warm-up."""
        calls, seconds = self.calls.copy(), self.seconds.copy()
        calls[0] += cost.calls
        seconds[0] += cost.seconds, cost.processor_seconds
        return self._replace(
            calls=calls, seconds=seconds,
            compile_seconds=self.compile_seconds + cost.compile_seconds,
        )  # fmt: skip


def bounds_for(target: Samplable, sampler: Sampler) -> np.ndarray:
    """Return the declared bounds of the coordinates that a sampler moves in, if it may use them."""
    learns = sampler.warmup is not None and sampler.warmup.for_scales is not None
    if not (learns and target.moves_parameters):
        return NO_BOUNDS
    few, possible = target.dim <= MOST_COORDINATES, target.dim <= MOST_IN_SPARSE_BLOCK
    most = np.inf if few else MOST_BOUNDED if possible else -1
    return declared_bounds(target.target, most_ends=most)


class Randomness(NamedTuple):
    """Where the random numbers of a chain come from: each use has its own."""

    moves: np.random.Generator  # its start and its moves
    # seeds of Stan's generator, for generated quantities of sampling and of warm-up
    quantities: int
    warmup_quantities: int
    scales: np.random.Generator  # the pre-run that learns scales


def randomness(plan: Plan) -> list[Randomness]:
    """Return the sources of every chain of a plan."""
    made = []
    for source in plan.seeds():
        moves, quantities, scales = source.spawn(3)
        sampling, warmup = map(int, quantities.generate_state(2, np.uint32))
        generators = np.random.default_rng(moves), np.random.default_rng(scales)
        made.append(Randomness(generators[0], sampling, warmup, generators[1]))
    return made


def make_chain(start: Start, design: ChainDesign, source: Randomness, number: int) -> Chain:
    """Return chain `number`, 0, 1, ..., at its position of a start."""
    plan, target = design.plan, start.target

    def make_constrain(warming_up: bool) -> Any:
        seed = source.warmup_quantities if warming_up else source.quantities
        return target.constrainer(seed, number)

    last = plan.chains * plan.threads_per_chain  # each worker gets a number as a chain does
    return Chain(
        design,
        start.counted(target.density(number), number),
        start.positions[number],
        source.moves,
        make_constrain,
        [target.density(worker) for worker in range(plan.chains + number, last, plan.chains)],
    )


def make_chains(start: Start, design: ChainDesign, sources: list[Randomness]) -> list[Chain]:
    """Return one chain per position of a start."""
    chains = [make_chain(start, design, source, i) for i, source in enumerate(sources)]
    for chain, seconds in zip(chains, start.seconds, strict=True):
        chain.count_as_warmup(*seconds)
    for phase in (
        "warmup",
        "sampling",
    ):  # one array of all draws, so that none is copied at the end
        whole = np.empty((len(chains), *getattr(chains[0], phase).constrained.shape))
        for chain, share in zip(chains, whole, strict=True):
            getattr(chain, phase).constrained = share
    return chains


NUMBER = 8  # bytes
# a run reports it if it takes more than this share of the free memory, or more bytes than this
MUCH, LARGE = 0.5, 1e9
COPIES = 1.4  # of the draws, while a result is built and judged: measured


def require_memory(design: ChainDesign, dim: int, on_disk: bool = False) -> None:
    """Refuse a run that does not fit into memory, and warn if one takes much of it or of a disk.

    `dim` is the number of parameters on the unconstrained scale. Draws that go to a run folder
    (`on_disk`) take no memory before the end: it allocates the space for them itself.
    """
    parts = _parts(design, dim, on_disk)
    total, free = sum(part.size for part in parts), psutil.virtual_memory().available
    stored = parts[0].size if on_disk else 0
    if total - stored < MUCH * free and total < LARGE:
        return
    taken = ", ".join(f"{part.name} {part.size / 1e9:,.1f} GB" for part in parts if part.size)
    largest = max(parts, key=lambda part: part.size)
    found = f"{taken}, and {free / 1e9:,.1f} GB are free. {largest.advice}"
    if sum(part.size for part in parts if part.is_certain) - stored > free:
        raise StanadaptError("out_of_memory", f"the run does not fit into memory: {found}")
    much = f"about {total / 1e9:,.1f} GB"
    if total - stored >= MUCH * free:
        much += " and more than half of the free memory"
    warn(Message("much_memory", f"this run will use {much}: {found}"))


class Part(NamedTuple):
    """One use of memory: bytes of all chains, their contents, and advice."""

    size: int
    name: str
    advice: str
    is_certain: bool = True  # estimates from above refuse no run


def _parts(design: ChainDesign, dim: int, on_disk: bool) -> list[Part]:
    plan, sampler = design.plan, design.sampler
    kept = plan.chains * (plan.draws + plan.warmup_draws)
    draws = NUMBER * kept * numbers_per_draw(design, dim)
    memory, fewer = sampler.memory, "Keep fewer draws: iter_sampling, thin, chains."
    matrices = NUMBER * plan.chains * memory.dense_matrices(design.settings) * dim**2
    parts = [
        Part(draws, f"{kept:,} draws take{' on disk' if on_disk else ''}", fewer),
        Part(int(COPIES * draws), "their copies in the result", fewer, is_certain=False),
        Part(
            matrices,
            f"matrices of {sampler.name} for {dim} parameters",
            "Use the default sampler, which needs none, or diagonal=True if there is this setting.",
        ),
    ]
    if memory.storage is not None:
        lower = ", ".join([*memory.settings, "chains"])
        stored = plan.chains * memory.storage(design.settings, dim)
        stored += memory.pooled(design.settings, dim, plan.chains)
        certain = bool(memory.settings)
        advice = (
            f"Lower {lower}." if certain else "Lower chains, or learn less (metric='diagonal')."
        )
        parts.append(Part(stored, f"{memory.name} of {sampler.name}", advice, certain))
    return parts


def numbers_per_draw(design: ChainDesign, dim: int) -> int:
    """How many numbers are kept of each draw: parameters, quantities and statistics."""
    statistics = 2 + len(design.sampler.info._fields)
    unconstrained = dim if design.keep_unconstrained else 0
    return design.n_constrained + statistics + unconstrained + extra_size(design, dim)
