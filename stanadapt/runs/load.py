"""The draws so far of a run on disk, whether or not it is still being written."""

import json
from os import PathLike
from os.path import isdir
from typing import Any

from stanadapt import results
from stanadapt.diagnostics.verdict import judged
from stanadapt.errors import StanadaptError
from stanadapt.results.labels import Labels, data_groups, named_dimensions, phase_groups
from stanadapt.runs.checkpoint import newest, summary_of
from stanadapt.runs.folder import RunFolder
from stanadapt.runs.result import statistics
from stanadapt.runs.spec import DATA


def load(path: str | PathLike) -> Any:
    """Read a result from a netCDF file, or the draws so far from the folder of a run.

    Raises
    ------
    StanadaptError
        Stage "files", where there is neither, or no draw yet.

    """
    if not isdir(results.as_path(path)):  # False too for names that the system refuses
        return results.load(path)
    folder = RunFolder.open(path)
    known, labels = folder.manifest, Labels(**folder.manifest["target"]["labels"])
    progress = [summary_of(held) for held in newest(folder, known["plan"]["chains"])]
    kept = [i for i, chain in enumerate(progress) if not chain["stopped"]]
    length = min((progress[i]["rows"]["sampling"] for i in kept), default=0)
    if not length:
        done = ", ".join(str(chain["done"]) for chain in progress)
        raise StanadaptError(
            "files",
            f"the run in {path} has no draws yet: its chains have done {done} iterations of "
            "warm-up. Read it again later, or resume it.",
        )
    arrays = folder.private_arrays()
    draws = results.variables(known["columns"], arrays["sampling_constrained"][kept, :length])
    stats = statistics(known["statistics"], arrays["sampling_stats"][kept, :length])
    groups = phase_groups(labels, "", draws, stats)
    groups |= data_groups(labels, folder.read_text(DATA))
    attributes = {**_attributes(known), "run": str(path), "chains_kept": [i + 1 for i in kept]}
    attributes["interrupted"] = length < -(-known["plan"]["iter_sampling"] // known["plan"]["thin"])
    return judged(results.build(groups, attributes, **named_dimensions(labels)))


def progress_of(path: str | PathLike) -> tuple[int, int, list[str]]:
    """Iterations of all chains that the last checkpoints know of and that were asked for; chains.

    The last are words, one per chain: "1: warm-up 300", "2: stopped".
    """
    folder = RunFolder.open(path)
    plan = folder.manifest["plan"]
    chains = [summary_of(held) for held in newest(folder, plan["chains"])]
    words = []
    for number, chain in enumerate(chains, 1):
        phase = "warm-up" if chain["warming_up"] else "sampling"
        words.append(f"{number}: {'stopped' if chain['stopped'] else phase} {chain['done']}")
    total = sum(chain["done"] if chain["stopped"] else chain["total"] for chain in chains)
    return sum(chain["done"] for chain in chains), total, words


def _attributes(known: dict[str, Any]) -> dict[str, Any]:
    plan = ("iter_warmup", "iter_sampling", "thin", "seed")
    return {
        "inference_library": "stanadapt",
        "inference_library_version": known["stanadapt"],
        "versions": json.dumps(known["versions"]),
        "model": known["program"]["name"],
        "program_hash": known["program"]["hash"],
        "data_hash": known["data_hash"],
        "parameters": json.dumps(known["parameters"]),
        "sampler": known["sampler"],
        "settings": json.dumps(known["settings"]),
        "backend": known["target"]["backend"],
        **{name: known["plan"][name] for name in plan},
    }
