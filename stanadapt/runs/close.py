"""The end of a run on disk: the last checkpoints, and a result apart from the folder."""

from typing import Any

from stanadapt.engine.chain import Chain
from stanadapt.errors import StanadaptError
from stanadapt.runs.drive import packed_up, uninterrupted
from stanadapt.runs.pack_result import ExtraGroups
from stanadapt.runs.write_checkpoints import WriteCheckpoints
from stanadapt.targets.target import Samplable


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
