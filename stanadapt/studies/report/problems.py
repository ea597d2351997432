"""The problems of a fit that a report lists, and facts that a reader of its numbers must know."""

from collections.abc import Sized

import numpy as np

from stanadapt import results
from stanadapt.errors import Message
from stanadapt.studies.report.assessment import Assessment, largest_z
from stanadapt.studies.report.fits import ReportedFit

# mean acceptance rate below which the steps of a chain are too large, for any target
SMALLEST_RATE = 0.05
MOST_MEANS = 12  # chains with a mean in a message


def problems(run: ReportedFit, assessment: Assessment) -> list[Message | str]:
    """Return the reasons of the verdict, the notes of the run, and the results of the comparison.

    Notes that a file stored have no codes.
    """
    return [
        *run.reasons,
        *results.notes(run.fit),
        *_regions(run),
        *run.missed,
        *_disagreement(run, assessment),
        *_not_compared(run, assessment),
        *_steps(run),
        *_facts(run),
        *_values(run),
    ]


def _regions(run: ReportedFit) -> list[Message]:
    if run.regions < 2:
        return []
    means = ""
    if np.isfinite(run.measured.r_hat).any():
        worst = run.measured.names[int(np.nanargmax(run.measured.r_hat))]
        listed = [f"{mean:.3g}" for mean in run.columns[worst].mean(axis=1)[:MOST_MEANS]]
        means = f" Means of {worst} by chain: {', '.join(listed)}."
    return [
        Message("separate_regions", f"Its chains lie in {run.regions} separate regions.{means}")
    ]


def _disagreement(run: ReportedFit, assessment: Assessment) -> list[Message]:
    z = assessment.z[run.label]
    limit = largest_z(run, assessment.reference)
    if not assessment.sound or not np.fmax(*z) > limit:
        return []
    mean, sd = (f"{value:.1f}" if np.isfinite(value) else "not computable" for value in z)
    text = (
        f"It disagrees with {assessment.reference.label}: the largest differences are {mean} "
        f"(means) and {sd} (standard deviations) joint Monte Carlo standard errors; chance alone "
        f"gives less than {limit:.1f}."
    )
    return [Message("disagreement", text)]


def _not_compared(run: ReportedFit, assessment: Assessment) -> list[Message]:
    objection = assessment.objections[run.label]
    if objection is None or objection.code != "not_compared":
        return []
    text = (
        f"Nothing was compared with {assessment.reference.label}: no quantity that is measured "
        "varies in both fits."
    )
    return [Message("not_compared", text)]


def _steps(run: ReportedFit) -> list[Message]:
    rates = run.statistics.get("acceptance_rate")
    if rates is None or not rates.size:
        return []
    means = rates.mean(axis=1)
    low = [str(c + 1) for c in np.flatnonzero(~(means >= SMALLEST_RATE))]
    if not low or not means.min() > 0:  # the verdict reports chains that accepted nothing
        return []
    chains = "all chains" if len(low) == len(means) else f"chain {', '.join(low)}"
    text = (
        f"The mean acceptance rate of {chains} is {np.nanmin(means, initial=1.0):.2g}: the steps "
        "are far too large. Reduce the step size, or lengthen warm-up so that it is learned."
    )
    return [Message("steps_too_large", text)]


def _facts(run: ReportedFit) -> list[Message]:
    row, thin = run.row, int(results.attribute(run.fit, "thin", 1))
    iterations = results.attribute(run.fit, "iter_sampling")
    requested = "more" if iterations is None else f"{int(iterations) // thin:,}"
    facts = [
        (
            thin > 1, "thinned_draws",
            f"One iteration in {thin} was kept (thin={thin}), {row['draws']:,} draws per chain: "
            "effective sample sizes refer to these, costs to all iterations.",
        ),
        (
            row["interrupted"], "interrupted_fit",
            f"It was interrupted: there are {row['draws']:,} of {requested} requested draws per "
            "chain.",
        ),
        (
            row["stopped_chains"] > 0, "stopped_chains",
            f"Failed chains, left out: {row['stopped_chains']:.0f}.",
        ),
        (
            row["failed"] > 0, "failed_evaluations",
            f"Failed evaluations, counted as rejections: {row['failed']:,.0f}.",
        ),
        (
            row["chains"] == 1, "one_chain",
            "It has one chain, so R-hat cannot be computed: nothing shows whether another chain "
            "would reach the same region. Run four chains.",
        ),
        (
            not run.statistics, "no_statistics",
            "It has no sample statistics: divergences, acceptance rates and adaptation are "
            "unknown.",
        ),
        (
            not np.isfinite(run.seconds), "no_seconds",
            "Its seconds were not recorded, so it is not ranked by speed.",
        ),
    ]  # fmt: skip
    return [Message(code, text) for holds, code, text in facts if holds]


def _values(run: ReportedFit) -> list[Message]:
    messages = []
    broken = {n: ~np.isfinite(x) for n, x in run.columns.items() if not np.isfinite(x).all()}
    if broken:
        first = next(iter(broken))
        text = (
            f"{_count(broken)} draws that are not finite, for instance {first} "
            f"({broken[first].sum():,} of {broken[first].size:,}): it has no mean and no effective "
            "sample size."
        )
        messages.append(Message("nonfinite_quantity", text))
    constant = [name for name, x in run.columns.items() if np.all(x == x.flat[0])]
    if constant:
        text = (
            f"{_count(constant)} one value in all draws, for instance {constant[0]} "
            f"({run.columns[constant[0]].flat[0]:g}): left out of all measures."
        )
        messages.append(Message("constant_quantity", text))
    return messages


def _count(names: Sized) -> str:
    count = len(names)
    return "One quantity has" if count == 1 else f"{count:,} quantities have"
