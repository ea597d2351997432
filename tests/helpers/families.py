"""Families of samplers: which can be deleted, and copies of the package without them."""

import shutil

from tests.helpers.repository import PACKAGE, ROOT

FAMILIES = sorted(path.parent.name for path in (PACKAGE / "samplers").glob("*/__init__.py"))
# the default sampler, and the approximations that `approximate` and inits="pathfinder" consist of
NEEDED = {"variational", "whitened"}
DELETABLE = [family for family in FAMILIES if family not in NEEDED]


def copy_without(families, folder):
    """Copy the package into a folder without some families, and the bundled programs next to it."""
    shutil.copytree(PACKAGE, folder / "stanadapt")  # with bytecode, which saves a second
    for family in families:
        shutil.rmtree(folder / "stanadapt" / "samplers" / family)
    (folder / "stan_models").symlink_to(ROOT / "stan_models")
    return folder
