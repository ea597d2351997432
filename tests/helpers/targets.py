"""The awkward target of `stanadapt.engine.awkward_target`, on which most tests run."""

from stanadapt.engine.awkward_target import MEAN, RHO, SCALES, SD, SHAPE, Awkward, starts

__all__ = ["MEAN", "RHO", "SCALES", "SD", "SHAPE", "Awkward", "starts"]
