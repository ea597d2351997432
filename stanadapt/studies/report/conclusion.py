"""The conclusion of a report: whether the fits can be trusted, and which sampler to use."""

from typing import NamedTuple

import numpy as np

from stanadapt.diagnostics.densities import shares_our_density
from stanadapt.errors import Message
from stanadapt.studies.report.assessment import Assessment
from stanadapt.studies.report.fits import ReportedFit

# with one run each, smaller ratios of ESS per second may be due to the seed
CLEARLY_AHEAD = 1.25


class Conclusion(NamedTuple):
    """Two messages, and the recommended sampler, or None."""

    trust: Message
    choice: Message
    winner: str | None


class Cost(NamedTuple):
    """Smallest bulk ESS per unit of cost, over the repeats of one name."""

    median: float
    lowest: float
    highest: float
    repeats: int


def per_second(runs: list[ReportedFit], name: str) -> Cost:
    """Return the smallest ESS per second of one core, with warm-up; NaN without seconds."""
    return _cost([run.ess_per_second for run in runs if run.name == name])


def per_gradient(runs: list[ReportedFit], name: str) -> Cost:
    """Return the smallest ESS per gradient, with warm-up; NaN for samplers without gradients."""
    return _cost([float(run.row["ess_per_gradient"]) for run in runs if run.name == name])


def _cost(values: list[float]) -> Cost:
    finite = [value for value in values if np.isfinite(value)]
    if not finite:
        return Cost(np.nan, np.nan, np.nan, 0)
    return Cost(float(np.median(finite)), min(finite), max(finite), len(finite))


def conclude(runs: list[ReportedFit], assessment: Assessment) -> Conclusion:
    """Answer both questions.

    The sampler to use has the largest median of the smallest bulk ESS per second, among those that
    can be used in every repeat.
    """
    names = list(dict.fromkeys(run.name for run in runs))
    usable = [name for name in names if assessment.usable(runs, name)]
    trust = _trust(runs, assessment, names, usable)
    if not usable:
        text = "No sampler can be recommended until the problems below are solved."
        return Conclusion(trust, Message("no_recommendation", text), None)
    choice, winner = choose(
        {name: per_second(runs, name) for name in usable},
        {name: per_gradient(runs, name) for name in usable},
        alone=len(names) == 1,
    )
    return Conclusion(trust, choice, winner)


def choose(
    seconds: dict[str, Cost], gradients: dict[str, Cost], *, alone: bool
) -> tuple[Message, str | None]:
    """Return a message on the fastest of the usable samplers, and its name.

    Smallest ESS per second and per gradient are given by sampler; `alone`: from the start.
    """
    ranked = sorted(
        (name for name, cost in seconds.items() if np.isfinite(cost.median)),
        key=lambda name: -seconds[name].median,
    )
    if not ranked:
        text = "The fastest sampler is unknown: the fits did not record their seconds."
        return Message("unknown_speed", text), None
    choice = _describe_choice(ranked, seconds, alone)
    unranked = [name for name in seconds if name not in ranked]
    without = f"; {_enumerate(unranked)} did not record seconds" if unranked else ""
    return choice.extended(suffix=f"{_compare_gradients(ranked, gradients)}{without}."), ranked[0]


def _trust(
    runs: list[ReportedFit], assessment: Assessment, names: list[str], usable: list[str]
) -> Message:
    reference = assessment.reference
    if usable == names:
        if names == [reference.name]:
            return Message("all_fits_usable", f"The fit of {names[0]} passes every check.")
        return Message("all_fits_usable", _describe_agreement(runs, assessment, names))
    refused = [name for name in names if name not in usable]
    reasons = _enumerate([f"{name} ({_objections(runs, assessment, name)})" for name in refused])
    if not usable:
        text = "The fit cannot" if len(names) == 1 else "None of the fits can"
        return Message("no_fit_usable", f"{text} be used as it is: {reasons}.")
    return Message(
        "some_fits_usable",
        f"{len(usable)} of {len(names)} samplers can be trusted, {_enumerate(usable)}, but not "
        f"{reasons}.",
    )


def _describe_agreement(runs: list[ReportedFit], assessment: Assessment, names: list[str]) -> str:
    """Describe what makes all samplers usable, without fits that could not be compared."""
    count = "Both" if len(names) == 2 else f"All {len(names)}"
    checked = f"{count} samplers can be trusted: their fits pass every check"
    reference, apart = assessment.reference, assessment.uncompared(runs)
    if not apart:
        shared = ", which shares their density," if shares_our_density(reference.fit) else ""
        return (
            f"{checked}, none missed a mode that another found, and they agree with "
            f"{reference.name}{shared} within Monte Carlo error."
        )
    compared = [run.label for run in runs if run is not reference and run.label not in apart]
    verb = "agrees" if len(compared) == 1 else "agree"
    agreement = f". {_enumerate(compared)} {verb} with {reference.label}" if compared else ""
    return (
        f"{checked}{agreement}. Not compared with {reference.label}, since their random data "
        f"differ: {_enumerate(apart)}."
    )


def _objections(runs: list[ReportedFit], assessment: Assessment, name: str) -> str:
    objections = [assessment.objections[run.label] for run in runs if run.name == name]
    bad = [objection for objection in objections if objection]
    text = ", ".join(dict.fromkeys(map(str, bad)))
    return text if len(objections) == 1 else f"{text} in {len(bad)} of {len(objections)} repeats"


def _describe_choice(ranked: list[str], costs: dict[str, Cost], alone: bool) -> Message:
    first = ranked[0]
    speed = f"{number(costs[first].median)} effective draws of its slowest quantity per second"
    if len(ranked) == 1:
        reason = "the only one here" if alone else "the only one left"
        return Message("fastest_sampler", f"Use {first}, {reason}: {speed}")
    second = ranked[1]
    ratio = costs[first].median / costs[second].median
    many = min(costs[first].repeats, costs[second].repeats) > 1
    apart = costs[first].lowest > costs[second].highest
    if not (apart if many else ratio > CLEARLY_AHEAD):
        why = (
            "the ranges of their repeats overlap"
            if many
            else "one run of each is not enough to decide"
        )
        return Message(
            "close_samplers",
            f"Use {first} or {second}: {speed} for the one, "
            f"{number(costs[second].median)} for the other, too close to call ({why})",
        )
    text = f"Use {first}: {speed}, {number(ratio)} times as many as {second}, the next"
    return Message("fastest_sampler", text)


def _compare_gradients(ranked: list[str], gradients: dict[str, Cost]) -> str:
    """Describe whether the fastest sampler is ahead per gradient too."""
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


def _enumerate(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def number(value: float) -> str:
    """Write a number with two or three significant digits, if possible without an exponent."""
    if not np.isfinite(value):
        return "–"
    if abs(value) >= 100 or value == 0:
        return f"{float(f'{value:.3g}'):,.0f}" if abs(value) < 1e7 else f"{value:.2g}"
    if abs(value) >= 10:
        return f"{value:.0f}"
    return f"{value:.2g}" if abs(value) >= 1e-4 else f"{value:.1e}"
