"""The picture of a funnel or curved ridge that a sampler straightened, before and after."""

from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.samplers.straightened_pair import DRIVER, MEMBER, RESIDUAL, STRAIGHTENED
from stanadapt.studies.report import canvas
from stanadapt.studies.report.fits import ReportedFit

MOST_ROWS = 4
# share of draws beyond each end of a vertical axis: the mouth of a funnel would hide its neck
CUT = 0.005


def draw(runs: list[ReportedFit], places: dict[str, int]) -> canvas.Picture | None:
    """Draw a row per run that was straightened; return None if none was."""
    shown = [run for run in runs if _has_pair(run.fit)][:MOST_ROWS]
    if not shown:
        return None
    figure = canvas.new_figure(0.4 + 2.4 * len(shown))
    grid = figure.subplots(len(shown), 2, squeeze=False)
    for (left, right), run in zip(grid, shown, strict=True):
        group = results.dataset(run.fit, STRAIGHTENED)
        driver, member = (canvas.shorten(str(group[v].attrs["name"])) for v in (DRIVER, MEMBER))
        for axes, variable in ((left, MEMBER), (right, RESIDUAL)):
            values = np.ravel(group[variable])
            color = canvas.hue(places[run.name])
            axes.plot(np.ravel(group[DRIVER]), values, ".", ms=3.5, color=color, alpha=0.6, mew=0)
            _cut(axes, values)
            axes.set_xlabel(driver)
        left.set_ylabel(member)
        left.set_title(f"{canvas.shorten(run.label)}: before")
        right.set_title("after")
    description = "A coordinate against another on which it depends, before and after"
    found = (f"{run.label}: {results.attribute(run.fit, 'straightening', '')}" for run in shown)
    caption = (
        f"{'. '.join(found)}. On the right is the residual that the sampler moved, given the "
        "coordinates on which it depends: its spread and location should be the same everywhere. "
        "Draws are on the unconstrained scale."
    )
    return canvas.picture(figure, "straightening", "Straightening", caption, description)


def _has_pair(fit: results.Fit) -> bool:
    """Whether a fit has the group; one of the same name made elsewhere may be another thing."""
    if STRAIGHTENED not in results.group_names(fit):
        return False
    group = results.dataset(fit, STRAIGHTENED)
    return all(
        variable in group and "name" in group[variable].attrs
        for variable in (DRIVER, MEMBER, RESIDUAL)
    )


def _cut(axes: Any, values: np.ndarray) -> None:
    low, high = np.nanquantile(values, [CUT, 1.0 - CUT])
    margin = 0.1 * (high - low)
    if margin > 0.0:
        axes.set_ylim(low - margin, high + margin)
