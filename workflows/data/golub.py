"""Data of horseshoe.stan, which `make_data` writes.

Golub's leukaemia data come from Debian's registry, by `apt-get download`. Without apt the file
cannot be checked; this is reported and is not an error.
"""

import math
import random
import tempfile
from pathlib import Path

from workflows.data.debian import downloaded

DEBIAN_PACKAGE = "r-bioc-multtest"
INSIDE = "usr/lib/R/site-library/multtest/data/golub.RData"
GENES, TEST_SHARE = 200, 0.2
EXPECTED_GENES = 5  # a guess at the number of coefficients that are not close to zero
READER_MISSING = "the packages that read the data are missing; run: pip install 'stanadapt[data]'"


def golub():
    """38 rows, 3051 genes; label 1 is acute myeloid leukaemia. Test rows are chosen at random."""
    try:
        import rdata
    except ImportError:
        raise SystemExit(READER_MISSING) from None
    with tempfile.TemporaryDirectory() as folder:
        path = downloaded(DEBIAN_PACKAGE, INSIDE, Path(folder))
        content = rdata.read_rda(path, default_encoding="ascii")
    rows = content["golub"].to_numpy().T.tolist()
    return horseshoe(rows, [int(label) for label in content["golub.cl"]])


def horseshoe(rows, labels, most=GENES):
    """Data of horseshoe.stan, with its settings.

    Only the inputs that vary most over the training rows, at most `most`, are kept, in the order of
    the source. The choice depends neither on the labels nor on the test rows.
    """
    training, test = split(len(rows))
    columns = list(zip(*(rows[row] for row in training), strict=True))
    ranked = sorted(range(len(columns)), key=lambda gene: -variance(columns[gene]))
    genes = sorted(ranked[:most])
    expected = min(EXPECTED_GENES, len(genes) / 2)
    odds = expected / (len(genes) - expected)
    settings = {
        "scale_intercept": 10,
        "scale_global": odds * 2 / math.sqrt(len(training)),
        "nu_local": 1,
        "nu_global": 1,
        "slab_scale": 2,
        "slab_df": 4,
    }
    return {
        "N": len(training),
        "P": len(genes),
        "N_test": len(test),
        **settings,
        "y": [labels[row] for row in training],
        "y_test": [labels[row] for row in test],
        "X": [[rows[row][gene] for gene in genes] for row in training],
        "X_test": [[rows[row][gene] for gene in genes] for row in test],
    }


def split(rows):
    """Indices of the training rows and of the test rows.

    They use `random()` alone, which Python guarantees to reproduce from a seed in all versions.
    """
    rng = random.Random(2)
    keys = [rng.random() for _ in range(rows)]
    drawn = sorted(range(rows), key=keys.__getitem__)
    tested = round(TEST_SHARE * rows)
    return sorted(drawn[tested:]), sorted(drawn[:tested])


def variance(values):
    """Sum of squares about the mean; its rounding, and so the ranks, are equal on all machines."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


FILES = {"horseshoe/golub.json": golub}
