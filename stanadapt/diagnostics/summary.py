"""Summarize the draws of a fit: estimates of each quantity, and how precise they are."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.diagnostics import mixing
from stanadapt.diagnostics import printed_tables as tables
from stanadapt.diagnostics.screening import NUMBERS
from stanadapt.errors import (
    StanadaptError,
    answers_other_words,
    did_you_mean,
    is_real,
    require_names,
)

LEVELS = (0.05, 0.5, 0.95)  # of quantiles
MIXING = ("mcse_mean", "mcse_sd", "ess_bulk", "ess_tail", "r_hat")
# printed titles, and the rank by which they are left out of narrow terminals
TITLES = {
    "mean": ("mean", 0), "sd": ("sd", 0), "median": ("median", 2), "mcse_mean": ("MCSE", 3),
    "ess_bulk": ("bulk ESS", 1), "ess_tail": ("tail ESS", 4), "r_hat": ("R-hat", 1),
}  # fmt: skip
# likewise, of means with control variates, if the fit has them
CONTROLLED = {"controlled": ("controlled mean", 2), "mcse_controlled": ("its MCSE", 3)}
LONGEST = 8  # elements of an array that are printed one by one
IN_FULL = "in_full"  # attribute of a table: whether each element is printed
# significant digits of a constant, and of an estimate whose Monte Carlo error is unknown
DIGITS, UNKNOWN_DIGITS = 7, 3


@answers_other_words
def summary(
    fit: results.Fit | Mapping[str, results.Fit],
    var_names: str | Iterable[str] | None = None,
    *,
    probabilities: Sequence[float] = LEVELS,
) -> "Summary":
    """Summarize the posterior draws of a fit, in the units of the program.

    Parameters
    ----------
    fit : Fit, or mapping of str to Fit
        Of this package or of any other; or several by name, `{"nuts": fit, "gad_mala": other}`,
        to list their estimates of each quantity together.
    var_names
        Variables of the posterior, such as "beta", or elements, "beta[2]"; default: all. Arrays
        that are named are printed in full.
    probabilities
        Those of quantiles, strictly between 0 and 1: 0.025 and 0.975 for intervals of 95%.

    Returns
    -------
    Summary
        A data frame that prints with as many digits as the draws determine, long arrays in one line
        each. It has a row for each element, named as in Stan ("beta[2]"): parameters first, then
        transformed parameters and generated quantities, scalars before arrays. With several fits,
        its index has two levels, element and fit. Its columns are those of `arviz.summary` under
        names that do not depend on ArviZ's version: mean, sd; quantiles, such as q5, median, q97.5;
        Monte Carlo standard errors mcse_mean, mcse_sd; rank-normalized effective sample sizes
        ess_bulk, ess_tail; r_hat. Of more than four million numbers, those that mix worst are
        measured exactly, and for the others all from mcse_mean on is estimated from batch means.
        If the fit has the group `expectations`, `controlled` is the mean with control variates, and
        `mcse_controlled` its standard error. What cannot be computed is NaN: all but mean and
        quantiles of a constant, r_hat of a single chain, everything of draws that are not finite.

    Raises
    ------
    StanadaptError
        Stage "settings": no fit with draws, or no variable of that name ("unknown_variable"), or
        probabilities out of range.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16, for R-hat, ESS
    and MCSE.

    Examples
    --------
    >>> import stanadapt as sa
    >>> target = sa.Target("parameters { real x; } model { x ~ normal(3, 2); }")
    >>> table = sa.summary(sa.sample(target, seed=1))
    >>> round(table.loc["x", "mean"])
    3
    """
    if isinstance(fit, Mapping) and not hasattr(fit, "attrs"):
        return _side_by_side(fit, var_names, probabilities)
    levels = require_probabilities(probabilities)
    columns = ordered_columns(fit, var_names)  # type: ignore[arg-type]
    return _table(fit, columns, var_names is not None, levels)  # type: ignore[arg-type]


def kinds(levels: Sequence[float]) -> list[str]:
    """Return the names of estimates: mean, sd, and quantiles such as "q5" and "median"."""
    return ["mean", "sd", *("median" if p == 0.5 else f"q{100 * p:g}" for p in levels)]


def title_of(kind: str) -> str:
    """Return the printed title of an estimate: "5%" for "q5"."""
    return f"{kind[1:]}%" if kind[:1] == "q" and kind[1:2].isdigit() else kind


def require_probabilities(given: Any) -> list[float]:
    """Return probabilities of quantiles with different names."""
    several = isinstance(given, Iterable) and not (is_real(given) or isinstance(given, str))
    listed = list(given) if several else [given]
    for p in listed:
        if not (is_real(p) and 0.0 < p < 1.0):
            raise StanadaptError(
                "out_of_range", f"probabilities must lie strictly between 0 and 1, got {p!r}."
            )
    if len(set(kinds(listed))) < len(kinds(listed)):
        raise StanadaptError(
            "out_of_range", f"probabilities must differ in their first six digits, got {listed}."
        )
    return [float(p) for p in listed]


def _table(
    fit: results.Fit,
    columns: dict[str, np.ndarray],
    in_full: bool,
    levels: Sequence[float] = LEVELS,
) -> "Summary":
    rows = _rows(columns, mixing.mixing_of(fit), levels)
    table = Summary(rows, index=list(columns), columns=[*kinds(levels), *MIXING])
    table.attrs[IN_FULL] = in_full
    kept = controlled(fit)
    if kept is not None:
        table["controlled"] = kept["mean"].reindex(table.index)
        table["mcse_controlled"] = kept["mcse_mean"].reindex(table.index)
    return table


def controlled(fit: results.Fit) -> pd.DataFrame | None:
    """Return the estimates with control variates that a fit has, by the name of the quantity."""
    if results.EXPECTATIONS not in results.group_names(fit):
        return None
    kept = results.dataset(fit, results.EXPECTATIONS)
    names = ["mean", "mcse_mean", "sd", "mcse_sd"]
    if "quantity" not in kept.coords or not {*names} <= {*kept}:
        return None
    index = kept["quantity"].values.astype(str)
    return pd.DataFrame({name: kept[name].values for name in names}, index=index)


def _side_by_side(
    fits: Mapping[str, results.Fit],
    var_names: str | Iterable[str] | None,
    probabilities: Sequence[float],
) -> "Summary":
    """Return the summaries of fits, with the rows of each quantity together."""
    if not fits:
        raise StanadaptError("no_fits", "summary needs at least one fit, got none.")
    levels = require_probabilities(probabilities)
    tables = {name: summary(fit, var_names, probabilities=levels) for name, fit in fits.items()}
    elements = dict.fromkeys(element for table in tables.values() for element in table.index)
    rows = [(e, name) for e in elements for name, table in tables.items() if e in table.index]
    titles = dict.fromkeys(title for table in tables.values() for title in table)
    numbers = [tables[name].loc[element].reindex(titles) for element, name in rows]
    index = pd.MultiIndex.from_tuples(rows, names=["element", "fit"])
    table = Summary(np.array(numbers), index=index, columns=list(titles))
    table.attrs[IN_FULL] = var_names is not None
    return table


def ordered_columns(
    fit: results.Fit, var_names: str | Iterable[str] | None = None, setting: str = "var_names"
) -> dict[str, np.ndarray]:
    """Return columns of draws by name: parameters first, and scalars before arrays."""
    results.require_draws(fit, "fit")
    wanted = None if var_names is None else require_names(setting, var_names)
    if wanted == []:
        raise StanadaptError(
            "not_a_name", f"{setting} is empty. Name a variable, or leave it out for all."
        )
    variables = None if wanted is None else {*wanted, *map(results.variable_of, wanted)}
    columns = results.columns(fit, wanted=variables)
    called = {}  # the names by which a column can be asked for
    for name in columns:
        variable = results.variable_of(name)
        called[name] = {name, variable, results.variable_name(variable)}
    if wanted is not None:
        columns = {name: x for name, x in columns.items() if called[name] & {*wanted}}
    for name in wanted or ():
        if not any(name in called[column] for column in columns):
            known = [str(one) for one in results.dataset(fit, "posterior").data_vars]
            raise StanadaptError(
                "unknown_variable",
                f"the fit has no draws of {name!r}.{did_you_mean(name, known)} "
                f"Its variables are {', '.join(known)}.",
            )
    parameters = results.parameters(fit) or set()

    def rank(name: str) -> tuple[bool, bool]:
        variable = results.variable_of(name)
        is_parameter = bool({variable, results.variable_name(variable)} & parameters)
        return not is_parameter, variable != name

    return {name: columns[name] for name in sorted(columns, key=rank)}


def first_rows(fit: results.Fit, count: int) -> "tuple[Summary, int]":
    """Return the summary of the first `count` quantities, and the number of all others."""
    columns = ordered_columns(fit)
    names = list(columns)[:count]
    # a part of an array is not called by its whole range
    return _table(fit, {name: columns[name] for name in names}, True), len(columns) - len(names)


def whole_variables(fit: results.Fit, most: int) -> "tuple[Summary, int]":
    """Return the summary of variables with at most `most` elements, and the number of others."""
    columns = ordered_columns(fit)
    shown: dict[str, np.ndarray] = {}
    for variable in dict.fromkeys(map(results.variable_of, columns)):
        part = {name: x for name, x in columns.items() if results.variable_of(name) == variable}
        if len(shown) + len(part) <= most:
            shown |= part
    return _table(fit, shown, False), len(columns) - len(shown)


def _rows(
    columns: dict[str, np.ndarray], measure: mixing.MixingCache, levels: Sequence[float]
) -> np.ndarray:
    """Return the numbers of a summary, shape (column of draws, number)."""
    end = 2 + len(levels)
    table = np.full((len(columns), end + len(MIXING)), np.nan)
    measured = mixing.efficiency(columns, measure=measure)
    row_of = {name: i for i, name in enumerate(measured.names)}
    names, draws = list(columns), list(columns.values())
    size = max(NUMBERS // max(draws[0].size, 1), 1) if draws else 1
    for first in range(0, len(draws), size):
        block = np.array(draws[first : first + size]).reshape(len(draws[first : first + size]), -1)
        finite = first + np.flatnonzero(np.isfinite(block).all(axis=1))
        table[finite, 2:end] = np.quantile(block[finite - first], levels, axis=1).T
        for row in finite:
            i = row_of.get(names[row])
            if i is None:  # a constant
                table[row, :2] = draws[row].flat[0], 0.0 if draws[row].size > 1 else np.nan
            else:
                numbers = [x[i] for x in measured[1:]]
                table[row, :2], table[row, end:] = numbers[:2], numbers[2:]
    return table


class Summary(tables.PrintedFrame):
    """Estimates and their precision: a data frame that prints with as many digits as are known."""

    def _printed(self) -> tables.Printed:
        ranks = dict(printed_titles(self).values())
        return tables.Printed([tables.PrintedTable("", *cells(self), ranks)])


def cells(table: pd.DataFrame) -> tuple[list[str], dict[str, list[str]]]:
    """Return the names of the printed rows, and cells by title; long arrays are in one row each.

    Such a row has the range of each estimate, the largest error, the smallest effective sample size
    and the largest R-hat of its elements.
    """
    titles = printed_titles(table)
    names, shown = [], {title: [] for title, _ in titles.values()}  # type: ignore[var-annotated]
    for name, part in printed_rows(table):
        names.append(name)
        for column, (title, _) in titles.items():
            places = decimals(part["mcse_controlled" if column in CONTROLLED else "mcse_mean"])
            values = part[column].to_numpy(float)
            values = values[~np.isnan(values)]
            shown[title].append(_cell(column, values, places, digits(part)) if len(values) else "")
    return names, shown


def printed_titles(table: pd.DataFrame) -> dict[str, tuple[str, int]]:
    """Return title and rank of each printed column."""
    known = (
        TITLES
        | CONTROLLED
        | {name: (title_of(name), 0) for name in table if title_of(name) != name}
    )
    return {name: known[name] for name in table if name in known}


def printed_rows(table: pd.DataFrame) -> Iterable[tuple[str, pd.DataFrame]]:
    """Yield (name, rows of the table) for each row that is printed."""
    if isinstance(table.index, pd.MultiIndex):
        yield from _printed_together(table)
        return
    variables = [results.variable_of(str(name)) for name in table.index]
    for variable in dict.fromkeys(variables):
        part = table[[one == variable for one in variables]]
        if len(part) <= LONGEST or table.attrs.get(IN_FULL):
            for i, name in enumerate(part.index):
                yield str(name), part.iloc[i : i + 1]
            continue
        indices = np.array([_index(str(name)) for name in part.index])
        spans = zip(indices.min(axis=0), indices.max(axis=0), strict=True)
        yield f"{variable}[{','.join(f'{a}..{b}' for a, b in spans)}]", part


def _printed_together(table: pd.DataFrame) -> Iterable[tuple[str, pd.DataFrame]]:
    """Yield the printed rows of several fits, those of each quantity together."""
    printed: dict[str, list[tuple[str, pd.DataFrame]]] = {}
    for fit, part in table.groupby(level="fit", sort=False):
        part = part.droplevel("fit")
        part.attrs = dict(table.attrs)
        for name, rows in printed_rows(part):
            printed.setdefault(name, []).append((str(fit), rows))
    widest = max(map(len, printed))
    for name, fits in printed.items():
        for i, (fit_name, rows) in enumerate(fits):
            yield f"{'' if i else name:<{widest}}  {fit_name}", rows


def _index(name: str) -> list[int]:
    return [int(i) for i in name[name.index("[") + 1 : -1].split(",")]


def decimals(errors: pd.Series) -> int | None:
    """Return the number of decimals that are known to a few units of the last; None if unknown."""
    errors = errors.to_numpy(float)
    errors = errors[np.isfinite(errors) & (errors > 0)]
    return None if not len(errors) else -int(np.floor(np.log10(errors.min())))


def digits(part: pd.DataFrame) -> int:
    """Return the number of significant digits of estimates without a Monte Carlo error."""
    return DIGITS if (part["sd"] == 0.0).all() else UNKNOWN_DIGITS


def _cell(column: str, values: np.ndarray, places: int | None, known: int) -> str:
    if column == "r_hat":
        return f"{values.max():.3f}"
    if column in ("ess_bulk", "ess_tail"):
        return f"{values.min():,.0f}"
    if column in ("mcse_mean", "mcse_controlled"):
        return f"{values.max():.2g}"
    return span(values, places, known)


def span(values: np.ndarray, places: int | None, known: int) -> str:
    """Write a number, or the smallest and the largest of several."""
    ends = [number(end, places, known) for end in (values.min(), values.max())]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} .. {ends[1]}"


def number(value: float, places: int | None, known: int = DIGITS) -> str:
    """Write a number with some decimals, or in another form if that would be long.

    Without decimals, it has `known` significant digits.
    """
    if places is not None and -6 <= places < 0 and abs(value) < 1e6:
        return f"{round(value, places):.0f}"
    if places is None or not 0 <= places <= 6 or abs(value) >= 1e7:
        if places is None or not value:
            return f"{value:.0f}" if value == round(value, 0) < 1e15 else f"{value:.{known}g}"
        digits = int(np.floor(np.log10(abs(value)))) + places + 1
        return f"{value:.{min(max(digits - 1, 0), 14)}e}"
    return f"{value:.{places}f}"
