"""A parallel tempering on a fixed ladder, from the Gaussian reference to the awkward target."""

import numpy as np

from stanadapt.engine.work_queue import no_queue
from stanadapt.samplers.tempering.ladder import LOG_STEP, B, no_ladder
from stanadapt.samplers.tempering.moves import MoveKernel, Options, make_mover
from stanadapt.samplers.tempering.path import DISTRIBUTION, TemperingPath, no_replicas
from stanadapt.samplers.tempering.reference_distribution import ReferenceDistribution
from stanadapt.samplers.tempering.swaps import Tempering, no_statistics
from tests.helpers.targets import Awkward
from tests.helpers.tempered_formula import REFERENCE_MEAN, REFERENCE_SD


def make_path(kind=DISTRIBUTION, wall=np.inf, prior_wall=np.inf, **chosen):
    """Return a path to the awkward target, from a reference with these options."""
    options = chosen if "covariance" in chosen else {"sd": REFERENCE_SD, **chosen}
    reference = ReferenceDistribution(REFERENCE_MEAN, **options).compiled(3)
    # the same program with another wall stands in for the one with prior-only data
    prior = Awkward(prior_wall).wall.ctypes.data
    return TemperingPath(Awkward(wall).density(), reference, kind, prior)


def make_tempering(levels, kernel=MoveKernel.hmc, room=7, wall=np.inf, degrees=np.inf):
    """Return a Tempering with these inverse temperatures, and unequal steps and scales."""
    path = make_path(wall=wall, degrees=degrees)
    ladder, order = no_ladder(room, 3), np.zeros((2, room), np.int64)
    count = len(levels)
    ladder.levels[:count, B], ladder.size[0] = levels, count
    ladder.levels[:count, LOG_STEP] = np.linspace(-0.1, -0.5, count)
    ladder.scale[:count] = np.linspace(1, 0, count)[:, None] * REFERENCE_SD + [1.0, 0.15, 2.5]
    order[0] = np.arange(room)
    mover = make_mover(room, 3, Options(kernel, 3, 4), no_queue())
    return Tempering(
        path, mover, ladder, no_replicas(room, 3), order, no_statistics(room, 3),
        np.full((1, 4), np.nan),
    )  # fmt: skip


def learned(levels=4, barrier=3.0, occupancy=None, log_evidence=-2.0):
    """Return what a chain on a path has learned, as samplers report it."""
    values = {
        "temperature": np.linspace(0, 1, levels),
        "log_normalizer": np.linspace(0, log_evidence, levels),
        "rejection": np.full(levels - 1, barrier / (levels - 1)),
        "barrier": barrier,
        "log_evidence": log_evidence,
    }
    return values if occupancy is None else {**values, "occupancy": np.asarray(occupancy, float)}


def ringed(without_pair):
    """Return the same of a chain with energy rings."""
    return learned() | {"ring_boundary": np.zeros(2), "without_pair": without_pair}
