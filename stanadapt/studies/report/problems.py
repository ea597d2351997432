"""What is wrong with a fit, and what a reader of its numbers must know: one sentence each."""

import json

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.compare import LARGEST_R_HAT
from stanadapt.studies.report.fits import Run, Standing, largest_z

# mean acceptance of a chain below which its steps are too large, whatever it was tuned to
HARDLY_ANY = 0.05
# of the excess of R-hat over 1: what may be left without a chain that is apart from all others
MOST_LEFT = 0.25
MOST_MEANS = 12  # chains of which a mean is told


def problems(run: Run, judged: Standing) -> list[str]:
    """Return the verdict's reasons, the run's own notes, then what the comparison adds."""
    return [
        *run.reasons,
        *json.loads(results.attribute(run.fit, "notes", "[]")),
        *_odd_chain(run),
        *_regions(run),
        *run.missed,
        *_disagreement(run, judged),
        *_steps(run),
        *_length(run),
        *_values(run),
        *_missing(run),
    ]


def _odd_chain(run: Run) -> list[str]:
    """Name the chain without which the others agree; one that never moved is told of before."""
    r_hat = run.measured.r_hat
    if not (r_hat > LARGEST_R_HAT).any() or run.row["chains"] < 3:
        return []
    worst = run.measured.names[int(np.nanargmax(r_hat))]
    suspects = [n for n, r in zip(run.measured.names, r_hat, strict=True) if r > LARGEST_R_HAT]
    arviz, draws = results.arviz_module(), run.columns[worst]
    means = draws.mean(axis=1)
    odd = int(np.argmax(np.abs(means - np.median(means))))
    without = {name: np.delete(run.columns[name], odd, axis=0) for name in suspects[:20]}
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = max(float(arviz.rhat(x)) for x in without.values())
    explained = rest - 1 < MOST_LEFT * (float(np.nanmax(r_hat)) - 1)
    if np.ptp(draws[odd]) == 0 or not rest <= LARGEST_R_HAT or not explained:
        return []
    others = np.delete(draws, odd, axis=0).mean()
    return [
        f"Chain {odd + 1} lies apart from all others: its mean of {worst} is {means[odd]:.3g}, "
        f"theirs is {others:.3g}, and without it no R-hat is above {rest:.3f}. It is in another "
        "mode, or still on its way."
    ]


def _regions(run: Run) -> list[str]:
    if run.regions < 2:
        return []
    where = ""
    if np.isfinite(run.measured.r_hat).any():
        worst = run.measured.names[int(np.nanargmax(run.measured.r_hat))]
        means = [f"{mean:.3g}" for mean in run.columns[worst].mean(axis=1)[:MOST_MEANS]]
        where = f" Means of {worst}, chain by chain: {', '.join(means)}."
    return [f"Its chains lie in {run.regions} separate regions.{where}"]


def _disagreement(run: Run, judged: Standing) -> list[str]:
    z = judged.z[run.label]
    limit = largest_z(run, judged.reference)
    if not judged.sound or not np.fmax(*z) > limit:
        return []
    mean, sd = (f"{value:.1f}" if np.isfinite(value) else "not computable" for value in z)
    return [
        f"It disagrees with {judged.reference.label}: the largest differences are {mean} (means) "
        f"and {sd} (standard deviations) joint Monte Carlo standard errors, where chance gives "
        f"less than {limit:.1f}."
    ]


def _steps(run: Run) -> list[str]:
    rates = run.statistics.get("acceptance_rate")
    if rates is None or not rates.size:
        return []
    means = rates.mean(axis=1)
    low = [str(c + 1) for c in np.flatnonzero(~(means >= HARDLY_ANY))]
    if not low or not means.min() > 0:  # the verdict tells of chains that accepted nothing
        return []
    which = "all chains" if len(low) == len(means) else f"chain {', '.join(low)}"
    return [
        f"The mean acceptance rate of {which} is {np.nanmin(means, initial=1.0):.2g}: the steps "
        "are far too large. Reduce the step size, or lengthen warm-up so that it is learned."
    ]


def _length(run: Run) -> list[str]:
    found, row = [], run.row
    thin = int(results.attribute(run.fit, "thin", 1))
    if thin > 1:
        found.append(
            f"One iteration in {thin} was kept (thin={thin}), {row['draws']:,} draws per chain: "
            "its effective sample sizes are of what was kept, its cost is of all."
        )
    if row["interrupted"]:
        found.append(
            f"It was interrupted: there are {row['draws']:,} draws per chain, of "
            f"{_asked_for(run)} that were asked for."
        )
    if row["stopped_chains"] > 0:
        found.append(f"Failed chains, left out: {row['stopped_chains']:.0f}.")
    if row["failed"] > 0:
        found.append(f"Failed evaluations, counted as rejections: {row['failed']:,.0f}.")
    if row["chains"] == 1:
        found.append(
            "It has one chain, so that R-hat cannot be computed: nothing in it shows whether "
            "another chain would end elsewhere. Run four."
        )
    return found


def _asked_for(run: Run) -> str:
    asked = results.attribute(run.fit, "iter_sampling")
    thin = int(results.attribute(run.fit, "thin", 1))
    return f"{int(asked) // thin:,}" if asked is not None else "more"


def _values(run: Run) -> list[str]:
    found = []
    broken = {n: ~np.isfinite(x) for n, x in run.columns.items() if not np.isfinite(x).all()}
    if broken:
        first = next(iter(broken))
        found.append(
            f"{_count(broken)} draws that are not finite, {first} for one ({broken[first].sum():,} "
            f"of {broken[first].size:,}): nothing can be said of such a quantity."
        )
    constant = [name for name, x in run.columns.items() if np.all(x == x.flat[0])]
    if constant:
        found.append(
            f"{_count(constant)} one value in all draws, {constant[0]} for one "
            f"({run.columns[constant[0]].flat[0]:g}): left out of all measures."
        )
    return found


def _count(names: object) -> str:
    count = len(names)  # type: ignore[arg-type]
    return "One quantity has" if count == 1 else f"{count:,} quantities have"


def _missing(run: Run) -> list[str]:
    found = []
    if not run.statistics:
        found.append(
            "It has no sample statistics: divergences, acceptance rates and adaptation are unknown."
        )
    if not np.isfinite(run.seconds):
        found.append("Its seconds were not recorded, so it takes no part in the ranking by speed.")
    return found
