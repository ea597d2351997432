"""A run that is to be kept on disk: its folder is filled before the first iteration."""

from os import PathLike
from typing import Any

from stanadapt.engine.chain import Chain, ChainDesign
from stanadapt.runs.folder import RunFolder
from stanadapt.runs.make_chains import Start
from stanadapt.runs.pack_result import ExtraGroups
from stanadapt.runs.recipe import manifest_of, write_program
from stanadapt.runs.tree import packed
from stanadapt.runs.write_checkpoints import WriteCheckpoints
from stanadapt.targets.standardized import Standardised

START = "start.npz"


def begin(
    path: str | PathLike | None,
    start: Start,
    chains: list[Chain],
    design: ChainDesign,
    keep: ExtraGroups,
    known: dict[str, Any],
    prior_data: str | None,
) -> WriteCheckpoints | None:
    """Fill a new folder, and return what keeps it up to date; None without a folder.

    Parameters
    ----------
    path
        Of the folder, which must be empty or not exist.
    start, chains, design, keep, known
        Of the run, as `sample` has them.
    prior_data
        Checked JSON of the reference, where it is the program under other data.

    Raises
    ------
    StanadaptError
        Stage "files", where the folder cannot be written or has no space for the draws.

    """
    if path is None:
        return None
    folder = RunFolder.create(path, manifest_of(start.target, chains[0], design, keep))
    with folder.lock():
        write_program(folder, start.target.target, prior_data)
        folder.write_arrays(START, packed(_described(start, known)))
        folder.give_memory(chains, new=True)
        keeper = WriteCheckpoints(folder, chains)
        keeper.write_together(chains)
        folder.write_manifest()
    return keeper


def _described(start: Start, known: dict[str, Any]) -> dict[str, Any]:
    moved = start.target if isinstance(start.target, Standardised) else None
    return {
        "location": moved.location if moved else None,
        "factor": moved.factor if moved else None,
        "positions": list(start.positions),
        "description": start.description,
        "known": known,
    }
