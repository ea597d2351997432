"""The awkward target of `stanadapt.engine.checks`, on which most tests run."""

from stanadapt.engine.checks import MEAN, RHO, SCALES, SD, SHAPE, Awkward, starts

__all__ = ["MEAN", "RHO", "SCALES", "SD", "SHAPE", "Awkward", "starts"]
