"""Data of horseshoe.stan; part of `make_data.py`, which writes them.

Golub's leukaemia data come from Debian's registry, which `apt-get download` reaches where there is
apt. Where there is none the file cannot be checked, which is told and is no error.
"""

import math
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

DEBIAN_PACKAGE = "r-bioc-multtest"
INSIDE = "usr/lib/R/site-library/multtest/data/golub.RData"
GENES, TEST_ROWS = 200, 8
EXPECTED_GENES = 5  # a guess at how many coefficients are not near zero
READER_MISSING = "the packages that read the data are missing; run: pip install 'stanadapt[data]'"


class NotAvailableError(Exception):
    """What a file is made of cannot be had here; the text says why."""


def fetched(folder):
    """The file golub.RData, out of the Debian package."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise NotAvailableError("there is no apt-get here")
    done = subprocess.run(
        ["apt-get", "download", DEBIAN_PACKAGE],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    packages = list(folder.glob("*.deb"))
    if done.returncode or not packages:
        said = (done.stderr.strip() or "no file came").splitlines()[-1]
        raise NotAvailableError(f"apt-get download {DEBIAN_PACKAGE} failed: {said}")
    subprocess.run(["dpkg-deb", "--extract", packages[0], folder], check=True)
    return folder / INSIDE


def golub():
    """38 rows, 3051 genes; label 1 is acute myeloid leukaemia. The rows of the test are drawn."""
    try:
        import rdata
    except ImportError:
        raise SystemExit(READER_MISSING) from None
    with tempfile.TemporaryDirectory() as folder:
        content = rdata.read_rda(fetched(Path(folder)), default_encoding="ascii")
    rows = content["golub"].to_numpy().T.tolist()
    return horseshoe(rows, [int(label) for label in content["golub.cl"]])


def horseshoe(rows, labels):
    """Data of horseshoe.stan, with its settings.

    Kept are the genes that vary most over the training rows, in the order of the source. Neither
    the labels nor the test rows have a say in that.
    """
    training, test = split(len(rows))
    columns = list(zip(*(rows[row] for row in training), strict=True))
    ranked = sorted(range(len(columns)), key=lambda gene: -variance(columns[gene]))
    genes = sorted(ranked[:GENES])
    odds = EXPECTED_GENES / (GENES - EXPECTED_GENES)
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
    """Numbers of the training rows and of the test rows.

    Of the random generator only `random()` is used, whose numbers Python promises to keep for a
    seed.
    """
    rng = random.Random(2)
    keys = [rng.random() for _ in range(rows)]
    drawn = sorted(range(rows), key=keys.__getitem__)
    return sorted(drawn[TEST_ROWS:]), sorted(drawn[:TEST_ROWS])


def variance(values):
    """Sum of squares about the mean; correctly rounded sums rank alike on every machine."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


FILES = {"horseshoe/golub.json": golub}
