"""The page of a repeated comparison: table, picture, what is doubtful, and how it was made."""

import json
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from stanadapt.diagnostics.repeats_picture import draw_repeats
from stanadapt.diagnostics.repeats_summary import labels
from stanadapt.diagnostics.repeats_table import cells_of
from stanadapt.diagnostics.report.page import page
from stanadapt.diagnostics.report.pictures.canvas import as_svg, own_settings

TITLE = "Repeated comparison"


def repeats_page(
    rows: pd.DataFrame,
    summary: pd.DataFrame,
    sentences: list[str],
    heading: list[str],
    command: str,
    origin: dict[str, Any],
) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    rows, summary, sentences
        See `repeats_summary`.
    heading
        What the targets, the version and the seed are.
    command
        That made it; "" from Python.
    origin
        Settings and versions, as plain values.

    """
    figure = draw_repeats(rows, summary, for_page=True)
    with own_settings():
        svg = as_svg(figure, "repeats", TITLE)
    titles, columns = cells_of(summary)
    lines = [
        {"name": name, "cells": [column[i] for column in columns]}
        for i, name in enumerate(labels(summary))
    ]
    return page(
        "repeats.html", title=TITLE, head=": ".join(summary.index.names), titles=titles,
        lines=lines, sentences=sentences, heading=heading, svg=svg, command=command,
        settings=json.dumps({n: origin[n] for n in ("settings", "samplers", "versions")}, indent=1),
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )  # fmt: skip
