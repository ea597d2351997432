"""The first two sentences of a report: can these fits be trusted, and which sampler to use."""

from typing import NamedTuple

import numpy as np

from stanadapt.studies.report.fits import Run, Standing

# one run of each: ratios of ESS per second below it are within what another seed may change
CLEARLY_AHEAD = 1.25


class Conclusion(NamedTuple):
    """Two sentences, and the name of the sampler to use; None if there is none."""

    trust: str
    choice: str
    winner: str | None


class Cost(NamedTuple):
    """Smallest bulk ESS per unit of cost, over the repeats of one name."""

    median: float
    lowest: float
    highest: float
    repeats: int


def per_second(runs: list[Run], name: str) -> Cost:
    """Per second of one core, warm-up included; NaN where seconds were not recorded."""
    return _cost([run.ess_per_second for run in runs if run.name == name])


def per_gradient(runs: list[Run], name: str) -> Cost:
    """Per gradient, warm-up included; NaN for samplers without."""
    return _cost([float(run.row["ess_per_gradient"]) for run in runs if run.name == name])


def _cost(values: list[float]) -> Cost:
    finite = [value for value in values if np.isfinite(value)]
    if not finite:
        return Cost(np.nan, np.nan, np.nan, 0)
    return Cost(float(np.median(finite)), min(finite), max(finite), len(finite))


def conclude(runs: list[Run], judged: Standing) -> Conclusion:
    """Answer both questions.

    The sampler to use is the one with the largest median of the smallest bulk ESS per second among
    those of which every repeat can be used.
    """
    names = list(dict.fromkeys(run.name for run in runs))
    usable = [name for name in names if judged.usable(runs, name)]
    trust = _trust(runs, judged, names, usable)
    if not usable:
        choice = "No sampler can be recommended until the problems below are solved."
        return Conclusion(trust, choice, None)
    choice, winner = choose(
        {name: per_second(runs, name) for name in usable},
        {name: per_gradient(runs, name) for name in usable},
        alone=len(names) == 1,
    )
    return Conclusion(trust, choice, winner)


def choose(
    seconds: dict[str, Cost], gradients: dict[str, Cost], *, alone: bool
) -> tuple[str, str | None]:
    """Return a sentence on which of the names that can be used is fastest, and this name.

    alone says that there were no others to begin with.
    """
    ranked = sorted(
        (name for name, cost in seconds.items() if np.isfinite(cost.median)),
        key=lambda name: -seconds[name].median,
    )
    if not ranked:
        return "Which is fastest cannot be said: the fits did not record their seconds.", None
    choice = _choice(ranked, seconds, alone) + _gradients(ranked, gradients)
    unknown = [name for name in seconds if name not in ranked]
    without = f"; {_listed(unknown)} did not record seconds" if unknown else ""
    return f"{choice}{without}.", ranked[0]


def _trust(runs: list[Run], judged: Standing, names: list[str], usable: list[str]) -> str:
    reference = judged.reference
    others = [name for name in names if name != reference.name]
    if usable == names:
        if not others:
            return f"The fit of {names[0]} passes every check."
        which = "Both" if len(names) == 2 else f"All {len(names)}"
        return (
            f"{which} samplers can be trusted: their fits pass every check, none missed a mode "
            f"that another found, and they agree with {reference.name} within Monte Carlo error."
        )
    refused = [name for name in names if name not in usable]
    reasons = _listed([f"{name} ({_objections(runs, judged, name)})" for name in refused])
    if not usable:
        fits = "The fit" if len(names) == 1 else "None of the fits"
        return f"{fits} can{'not' if len(names) == 1 else ''} be used as it is: {reasons}."
    trusted = f"{len(usable)} of {len(names)} samplers can be trusted, {_listed(usable)}"
    return f"{trusted}, but not {reasons}."


def _objections(runs: list[Run], judged: Standing, name: str) -> str:
    own = [run for run in runs if run.name == name]
    found = dict.fromkeys(judged.objections[run.label] for run in own)
    words = ", ".join(word for word in found if word)
    bad = sum(bool(judged.objections[run.label]) for run in own)
    return words if len(own) == 1 else f"{words} in {bad} of {len(own)} repeats"


def _choice(ranked: list[str], costs: dict[str, Cost], alone: bool) -> str:
    first = ranked[0]
    speed = f"{number(costs[first].median)} effective draws of its slowest quantity per second"
    if len(ranked) == 1:
        return f"Use {first}, {'alone here' if alone else 'the only one left'}: {speed}"
    second = ranked[1]
    ratio = costs[first].median / costs[second].median
    if not _apart(costs[first], costs[second], ratio):
        many = min(costs[first].repeats, costs[second].repeats) > 1
        why = "the ranges of their repeats overlap" if many else "one run of each does not decide"
        return (
            f"Use {first} or {second}: {speed} for the one, "
            f"{number(costs[second].median)} for the other, too close to call ({why})"
        )
    return f"Use {first}: {speed}, {number(ratio)} times as many as {second}, the next"


def _apart(first: Cost, second: Cost, ratio: float) -> bool:
    if min(first.repeats, second.repeats) > 1:
        return first.lowest > second.highest
    return ratio > CLEARLY_AHEAD


def _gradients(ranked: list[str], gradients: dict[str, Cost]) -> str:
    """Whether the cost in gradients says the same."""
    costs = {name: gradients[name].median for name in ranked}
    counted = sorted((n for n in ranked if np.isfinite(costs[n])), key=lambda name: -costs[name])
    if len(ranked) < 2 or not counted:
        return ""
    if ranked[0] not in counted:
        return "; it uses no gradients"
    if counted[0] != ranked[0]:
        ratio = costs[counted[0]] / costs[ranked[0]]
        return f"; per gradient, {counted[0]} is ahead of it ({number(ratio)} times)"
    if len(counted) == 1:
        return "; the others use no gradients"
    ratio = costs[counted[0]] / costs[counted[1]]
    return f"; per gradient it is ahead too ({number(ratio)} times {counted[1]})"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def number(value: float) -> str:
    """Two or three digits that count, without an exponent where that can be read."""
    if not np.isfinite(value):
        return "–"
    if abs(value) >= 100 or value == 0:
        return f"{float(f'{value:.3g}'):,.0f}" if abs(value) < 1e7 else f"{value:.2g}"
    if abs(value) >= 10:
        return f"{value:.0f}"
    return f"{value:.2g}" if abs(value) >= 1e-4 else f"{value:.1e}"
