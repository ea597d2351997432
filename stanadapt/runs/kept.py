"""The end of a run on disk: the last checkpoints, and a result apart from the folder.

A run that is to be kept on disk: its folder is filled before the first iteration.
"""

from os import PathLike
from typing import Any

from stanadapt.engine.chain import Chain, ChainDesign
from stanadapt.errors import StanadaptError
from stanadapt.runs.chains import Start
from stanadapt.runs.checkpoint import WriteCheckpoints
from stanadapt.runs.folder import RunFolder
from stanadapt.runs.result import ExtraGroups
from stanadapt.runs.run import packed_up, uninterrupted
from stanadapt.runs.spec import manifest_of, write_program
from stanadapt.runs.tree import packed
from stanadapt.targets.target import Samplable

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
    return {
        "location": start.target.location,
        "factor": start.target.factor,
        "positions": list(start.positions),
        "description": start.description,
        "known": known,
    }


def close(
    keeper: WriteCheckpoints,
    target: Samplable,
    chains: list[Chain],
    known: dict[str, Any],
    keep: ExtraGroups,
) -> Any:
    """Write the last checkpoint of every chain, and return the result.

    Its arrays are private: what is done to them does not reach the folder.
    """
    with uninterrupted() as pressed:
        for chain in chains:
            if not chain.abandoned:
                keeper.write(chain)
        keeper.finish()
        for name, whole in keeper.folder.private_arrays().items():
            phase, _, kind = name.partition("_")
            for chain, share in zip(chains, whole, strict=True):
                setattr(getattr(chain, phase), kind, share)
    notes, path = [*known.get("notes", []), *keeper.trouble], str(keeper.folder.path)
    known = {**known, "notes": notes, "run": path}
    try:
        return packed_up(target, chains, known, keep, hurried=bool(pressed))
    except StanadaptError as error:
        if known["interrupted"] and error.stage == "sampling":
            error.message += f" The run is kept: stanadapt.resume({path!r}) goes on with it."
        raise
