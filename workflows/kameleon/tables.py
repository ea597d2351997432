"""Tables of the synthetic Kameleon study: our numbers, the published ones, and verdicts."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workflows import conclude
from workflows.gad.tables import number
from workflows.kameleon import discrepancy
from workflows.kameleon.published import DRAFT, LIMITS, REDONE, Row

SHOWN_LEVELS = (0.1, 0.5, 0.9)
DIGITS = {"norm": 2, "deviation": 4}  # decimals
MEASURES = ("acceptance", "norm", "deviation", "microseconds")


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Means, standard deviations and standard errors over chains; index (target, method)."""
    summaries = {}
    for key, group in rows.groupby(["target", "method"], sort=False):
        line = {"chains": len(group), **group.iloc[0][["settings", "densities"]]}
        for name in MEASURES:
            sd = group[name].std()
            line |= {name: group[name].mean(), f"{name}_sd": sd}
            line[f"{name}_se"] = sd / np.sqrt(len(group))
        line["norm_median"] = group["norm"].median()
        for level in discrepancy.LEVELS:
            line[f"inside_{level}"] = group[f"inside_{level}"].mean()
        summaries[key] = line
    table = pd.DataFrame.from_dict(summaries, orient="index")
    table.index = pd.MultiIndex.from_tuples(table.index, names=["target", "method"])
    return table


def _with(value: float, spread: float, digits: int) -> str:
    """Write a number and its spread; NaN is empty."""
    if value != value:
        return ""
    return f"{value:.{digits}f}" + ("" if spread != spread else f" ± {spread:.{digits}f}")


def _coverage(inside: Any) -> str:
    return " ".join(f"{value:.3f}" for value in inside)


def lines(table: pd.DataFrame, target: str) -> pd.DataFrame:
    """The rows of one target as text, each of ours above the published ones of its method."""
    rows = []
    for method, line in table.loc[target].iterrows():
        rows.append(
            {
                "method": method, "from": "here", "settings": line["settings"],
                "chains": f"{line['chains']:.0f}",
                "acceptance": _with(line["acceptance"], line["acceptance_sd"], 3),
                "norm of mean": _with(line["norm"], line["norm_sd"], 2),
                "median": _with(line["norm_median"], np.nan, 2),
                "inside .1 .5 .9": _coverage(line[f"inside_{q}"] for q in SHOWN_LEVELS),
                "deviation": _with(line["deviation"], line["deviation_se"], 4),
                "us/iteration": number(line["microseconds"]),
            }
        )  # fmt: skip
        for source, known in (("draft", DRAFT), ("redone", REDONE)):
            rows += [_published(source, row) for row in known[target].get(method, [])]
    return pd.DataFrame(rows)


def _published(source: str, row: Row) -> dict[str, str]:
    return {
        "method": "", "from": source, "settings": row.settings, "chains": str(row.chains),
        "acceptance": _with(row.acceptance, row.acceptance_sd, 3),
        "norm of mean": _with(row.norm, row.norm_sd, 2), "median": "",
        "inside .1 .5 .9": _coverage(row.inside),
        "deviation": _with(row.deviation, np.nan, 4), "us/iteration": "",
    }  # fmt: skip


def verdicts(table: pd.DataFrame) -> list[str]:
    """Whether the limits hold, and whether ours is at least as good as the published method."""
    messages = []
    for target in table.index.unique("target"):
        methods, names = table.loc[target], LIMITS[target]._fields
        present = [method for method in ("KAMH-LS", "ours") if method in methods.index]
        for method in present:
            messages += [_limit(target, method, methods.loc[method], name) for name in names]
        if "ours" in present:
            messages += _differences(target, methods)
    return messages


def _limit(target: str, method: str, line: pd.Series, name: str) -> str:
    limit, value = getattr(LIMITS[target], name), line[name]
    verdict = "holds" if value < limit else "does NOT hold"
    text = _with(value, line[f"{name}_se"], DIGITS[name])
    return f"{target} {method}: {name} {text} (standard error) < {limit:g} {verdict}."


def _differences(target: str, methods: pd.DataFrame) -> list[str]:
    """Compare ours with KAMH-LS as run here, and its norm with the draft's."""
    ours, messages = methods.loc["ours"], []
    if "KAMH-LS" in methods.index:
        theirs = methods.loc["KAMH-LS"]
        messages += [
            _difference(target, name, ours, theirs[name], theirs[f"{name}_se"], "KAMH-LS here")
            for name in DIGITS
        ]
    draft = DRAFT[target]["KAMH-LS"][0]
    error = draft.norm_sd / np.sqrt(draft.chains)
    last = _difference(target, "norm", ours, draft.norm, error, "the draft's KAMH-LS")
    return [*messages, last]


def _difference(
    target: str, name: str, ours: pd.Series, theirs: float, their_error: float, source: str
) -> str:
    difference, error = ours[name] - theirs, np.hypot(ours[f"{name}_se"], their_error)
    text = _with(difference, error, DIGITS[name])
    if error != error:
        verdict = "no verdict from a single chain"
    elif difference > 2 * error:
        verdict = "ours is NOT as good: worse by more than two standard errors"
    elif difference < -2 * error:
        verdict = "ours is better, by more than two standard errors"
    else:
        verdict = "no worse, within two standard errors"
    return f"{target}: {name}, ours minus {source}, {text} (standard error): {verdict}."


def show(table: pd.DataFrame) -> None:
    """Print one table per target."""
    for target in table.index.unique("target"):
        left = (*conclude.LEFT, "settings")
        conclude.show(_title(target, table), lines(table, target), left, 160)


def _title(target: str, table: pd.DataFrame) -> str:
    count = table.loc[target]["densities"].iloc[0]
    return f"{target}: {count:,} density evaluations per chain, for every method"


def markdown(title: str, table: pd.DataFrame, caption: str, notes: list[str]) -> str:
    """Compose the whole Markdown file."""
    parts = [f"# {title}", caption]
    for target in table.index.unique("target"):
        parts += [f"## {_title(target, table)}", conclude.markdown_table(lines(table, target))]
    parts += ["## Notes", "\n".join(f"- {note}" for note in notes)]
    return "\n\n".join(parts) + "\n"


def write(
    folder: Path, name: str, rows: pd.DataFrame, table: pd.DataFrame, text: str
) -> list[Path]:
    """Write every chain and the summary as CSV, and the Markdown file; returns the paths."""
    paths = [folder / f"{name}_chains.csv", folder / f"{name}.csv", folder / f"{name}.md"]
    rows.to_csv(paths[0], index=False)
    table.to_csv(paths[1])
    paths[2].write_text(text, encoding="utf-8")
    return paths
