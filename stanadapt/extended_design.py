"""What a user asks of a pseudo-extension, checked: temperatures and their ladder."""

import math
from typing import Any

import numpy as np

from stanadapt.errors import StanadaptError
from stanadapt.extended_density import COLLAPSED, FIXED, FREE
from stanadapt.extended_handle import NO_LADDER, Design

MODES = {"free": FREE, "fixed": FIXED, "collapsed": COLLAPSED}


def read_design(count: int, temperature: Any, between: Any, fixed_at: Any, ladder: Any) -> Design:
    """Return the Design of options of `Extended`; StanadaptError for one that is wrong."""
    if temperature not in MODES:
        raise wrong(f"temperature must be one of {', '.join(MODES)}, got {temperature!r}.")
    mode = MODES[temperature]
    if mode == FIXED:
        if ladder is not None:
            raise wrong("a fixed temperature needs no ladder: leave one of the two out.")
        b = _inverse_temperature("fixed_at", fixed_at)
        return Design(count, mode, b, b, *NO_LADDER)
    if mode == COLLAPSED:
        if ladder is None:
            raise wrong(
                "collapsed temperatures are summed over a ladder: give ladder=(temperatures, "
                'log_normalizers), or take temperature="free".'
            )
        return Design(count, mode, 0.0, 1.0, *_ladder(ladder), np.empty((4, 0)))
    low, high = _between(between)
    if ladder is None:
        return Design(count, mode, low, high, *NO_LADDER)
    temperatures, log_normalizers = _ladder(ladder)
    if temperatures[0] > low:
        raise wrong(
            f"ladder: it begins at {temperatures[0]:g}, above the lowest temperature {low:g}: "
            f"extend it, or take between=({temperatures[0]:g}, {high:g})."
        )
    from scipy.interpolate import PchipInterpolator  # 0.3 s: only where there is a ladder

    cubics = np.ascontiguousarray(PchipInterpolator(temperatures, log_normalizers).c)
    return Design(count, mode, low, high, temperatures, log_normalizers, cubics)


def _inverse_temperature(name: str, given: Any) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 <= number <= 1.0:
        raise wrong(f"{name} must be an inverse temperature in [0, 1], got {given!r}.")
    return number


def _between(given: Any) -> tuple[float, float]:
    try:
        low, high = given
    except (TypeError, ValueError):
        raise wrong(
            f"between must be the lowest and the highest temperature, got {given!r}."
        ) from None
    low, high = _inverse_temperature("between", low), _inverse_temperature("between", high)
    if low >= high:
        raise wrong(
            f"between must increase, got ({low:g}, {high:g}). For one temperature take "
            'temperature="fixed".'
        )
    return low, high


def _ladder(given: Any) -> tuple[np.ndarray, np.ndarray]:
    try:
        temperatures, log_normalizers = (np.array(part, dtype=float) for part in given)
    except (TypeError, ValueError):
        raise wrong("ladder must be (temperatures, log_normalizers), two lists of numbers.") from (
            None
        )
    shape = temperatures.shape
    if len(shape) != 1 or shape[0] < 2 or log_normalizers.shape != shape:
        raise wrong(
            "ladder: give as many log_normalizers as temperatures, at least two, got shapes "
            f"{shape} and {log_normalizers.shape}."
        )
    if not (np.all(np.diff(temperatures) > 0) and temperatures[0] >= 0 and temperatures[-1] == 1):
        raise wrong(f"ladder: temperatures must increase in [0, 1] and end at 1, got {given[0]}.")
    if not np.all(np.isfinite(log_normalizers)):
        raise wrong(f"ladder: log_normalizers must be finite, got {given[1]}.")
    return temperatures, log_normalizers


def wrong(message: str) -> StanadaptError:
    """Return the error of an option."""
    return StanadaptError("settings", f"extended: {message}")
