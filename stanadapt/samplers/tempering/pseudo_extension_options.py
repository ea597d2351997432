"""Checks of the options of a pseudo-extension: temperatures and their ladder."""

import math
from typing import Any

import numpy as np

from stanadapt.errors import StanadaptError
from stanadapt.samplers.tempering.density import COLLAPSED, FIXED, FREE
from stanadapt.samplers.tempering.handle import NO_LADDER, ExtensionDesign

MODES = {"free": FREE, "fixed": FIXED, "collapsed": COLLAPSED}


def read_design(
    count: int, temperature: Any, between: Any, fixed_at: Any, ladder: Any
) -> ExtensionDesign:
    """Return the design that options of `Extended` define; StanadaptError for a wrong option."""
    if not isinstance(temperature, str) or temperature not in MODES:
        raise option_error(f"temperature must be one of {', '.join(MODES)}, got {temperature!r}.")
    mode = MODES[temperature]
    if mode == FIXED:
        if ladder is not None:
            raise option_error("a fixed temperature needs no ladder: leave one of the two out.")
        b = _inverse_temperature("fixed_at", fixed_at)
        return ExtensionDesign(count, mode, b, b, *NO_LADDER)
    if mode == COLLAPSED:
        if ladder is None:
            raise option_error(
                "collapsed temperatures are summed over a ladder: give ladder=(temperatures, "
                'log_normalizers), or use temperature="free".'
            )
        return ExtensionDesign(count, mode, 0.0, 1.0, *_ladder(ladder), np.empty((4, 0)))
    low, high = _between(between)
    if ladder is None:
        return ExtensionDesign(count, mode, low, high, *NO_LADDER)
    temperatures, log_normalizers = _ladder(ladder)
    if temperatures[0] > low:
        raise option_error(
            f"ladder: it begins at {temperatures[0]:g}, above the lowest temperature {low:g}: "
            f"extend it, or use between=({temperatures[0]:g}, {high:g})."
        )
    from scipy.interpolate import PchipInterpolator  # takes 0.3 s: imported only for a ladder

    cubics = np.ascontiguousarray(PchipInterpolator(temperatures, log_normalizers).c)
    return ExtensionDesign(count, mode, low, high, temperatures, log_normalizers, cubics)


def _inverse_temperature(name: str, given: Any) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 <= number <= 1.0:
        raise option_error(f"{name} must be an inverse temperature in [0, 1], got {given!r}.")
    return number


def _between(given: Any) -> tuple[float, float]:
    try:
        low, high = given
    except (TypeError, ValueError):
        raise option_error(
            f"between must be the lowest and the highest temperature, got {given!r}."
        ) from None
    low, high = _inverse_temperature("between", low), _inverse_temperature("between", high)
    if low >= high:
        raise option_error(
            f"between must increase, got ({low:g}, {high:g}). For a single temperature use "
            'temperature="fixed".'
        )
    return low, high


def _ladder(given: Any) -> tuple[np.ndarray, np.ndarray]:
    try:
        temperatures, log_normalizers = (np.array(part, dtype=float) for part in given)
    except (TypeError, ValueError):
        raise option_error(
            "ladder must be (temperatures, log_normalizers), two lists of numbers."
        ) from None
    shape = temperatures.shape
    if len(shape) != 1 or shape[0] < 2 or log_normalizers.shape != shape:
        raise option_error(
            "ladder: give as many log_normalizers as temperatures, at least two each, got shapes "
            f"{shape} and {log_normalizers.shape}."
        )
    if not (np.all(np.diff(temperatures) > 0) and temperatures[0] >= 0 and temperatures[-1] == 1):
        raise option_error(
            f"ladder: temperatures must increase in [0, 1] and end at 1, got {given[0]}."
        )
    if not np.all(np.isfinite(log_normalizers)):
        raise option_error(f"ladder: log_normalizers must be finite, got {given[1]}.")
    return temperatures, log_normalizers


def option_error(message: str) -> StanadaptError:
    """Return the error for a wrong option."""
    return StanadaptError("settings", f"extended: {message}")
