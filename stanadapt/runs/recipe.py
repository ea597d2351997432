"""What a run was asked for, as text: target, sampler, settings, lengths; and back again."""

import inspect
import json
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import numpy as np

from stanadapt.engine.chain import Chain, ChainDesign
from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.registry import as_chosen, find
from stanadapt.errors import StanadaptError
from stanadapt.runs.attributes import RECORDED
from stanadapt.runs.folder import RunFolder
from stanadapt.runs.pack_result import ExtraGroups, stat_labels
from stanadapt.targets.stan import data as stan_data
from stanadapt.targets.stan.program import Program
from stanadapt.targets.standardized import Standardised
from stanadapt.targets.target import Samplable, Target

PROGRAM, DATA, PRIOR_DATA = "program.stan", "data.json", "prior_data.json"


def manifest_of(target: Samplable, chain: Chain, design: ChainDesign, keep: ExtraGroups) -> dict:
    """What `run.json` holds of a run that is about to begin."""
    program = target.target
    return {
        "stanadapt": version("stanadapt"),
        "versions": {name: version(name) for name in RECORDED},
        "created_at": datetime.now(UTC).isoformat(),
        "program": {"name": program.name, "hash": program.program.hash},
        "data_hash": stan_data.digest(program.data),
        "target": _plain({**program.options, "labels": program.labels._asdict()}),
        "backend_reason": program.backend_reason,
        "extended": "" if program is _base(target) else repr(_base(target)),
        "sampler": design.sampler.name,
        "sampler_hash": source_hash(design.sampler),
        "settings": as_chosen(design.settings),
        "plan": design.plan._asdict(),
        "keep": keep._asdict(),
        "parameters": [n for n in program.parameters if n not in program.noise],
        "columns": program.column_names,
        "statistics": stat_labels(target, chain),
    }


def _base(target: Samplable) -> Samplable:
    """What the user gave, without the coordinates that were learned."""
    return target.base if isinstance(target, Standardised) else target


def source_hash(sampler: Sampler) -> str:
    """Hash of a sampler's file: another version of it would go on differently."""
    source = inspect.getsource(inspect.getmodule(sampler.settings))  # type: ignore[arg-type]
    return sha256(source.encode()).hexdigest()[:16]


def write_program(folder: RunFolder, target: Target, prior_data: str | None) -> None:
    """Write the program and its data beside the run, so that it can be made anew from these."""
    folder.write_text(PROGRAM, target.program.code)
    folder.write_text(DATA, target.data)
    if prior_data is not None:
        folder.write_text(PRIOR_DATA, prior_data)


def target_of(folder: RunFolder, given: Any, show_progress: bool) -> Samplable:
    """Return the target of a run: as given, if it is the same, or made from what the folder holds.

    Raises
    ------
    StanadaptError
        Stage "settings", where program or data differ from those of the run.

    """
    known = folder.manifest
    if given is None:
        if known["extended"]:
            raise StanadaptError(
                "settings",
                f"the run is one of {known['extended']}: make that again and give it as `target`.",
            )
        program = Program(known["program"]["name"], folder.read_text(PROGRAM), None, ())
        _require_same(folder, "program", program.hash, known["program"]["hash"])
        given = Target(
            program, folder.read_text(DATA), **known["target"], show_progress=show_progress
        )
        given.backend_reason = known["backend_reason"]
    _require_same(folder, "program", given.target.program.hash, known["program"]["hash"])
    _require_same(folder, "data", stan_data.digest(given.target.data), known["data_hash"])
    _require_same(folder, "backend", given.target.backend, known["target"]["backend"])
    found = "" if given.target is given else repr(given)
    _require_same(folder, "pseudo-extension", found, known["extended"])
    return given


def sampler_of(folder: RunFolder) -> tuple[Sampler, Any]:
    """Return the sampler and the settings of a run."""
    known = folder.manifest
    try:
        sampler, settings = find(known["sampler"], **known["settings"])
    except StanadaptError as error:
        raise StanadaptError(
            "settings",
            f"the sampler of the run, {known['sampler']}, is not there as it was: {error.message} "
            "If it is one of your own, import its file first.",
        ) from None
    what = f"file of the sampler {sampler.name}"
    _require_same(folder, what, source_hash(sampler), known["sampler_hash"])
    return sampler, settings


def plan_of(folder: RunFolder) -> Plan:
    """Return how long the run is to be."""
    return Plan(**folder.manifest["plan"])


def other_versions(folder: RunFolder) -> list[str]:
    """Say which libraries are not those with which the run began."""
    now = {"stanadapt": version("stanadapt"), **{name: version(name) for name in RECORDED}}
    then = {"stanadapt": folder.manifest["stanadapt"], **folder.manifest["versions"]}
    changed = [f"{n} {then.get(n, '?')}, now {now[n]}" for n in now if now[n] != then.get(n)]
    if not changed:
        return []
    return [
        f"the run began with {'; '.join(changed)}: from here on its draws may differ in the last "
        "digits from those of an uninterrupted run."
    ]


def _require_same(folder: RunFolder, what: str, now: str, then: str) -> None:
    if now != then:
        raise StanadaptError(
            "settings",
            f"the {what} is not that of the run in {folder.path} ({now or 'none'} instead of "
            f"{then or 'none'}): resume with what the run began with, or sample anew.",
        )


def _plain(thing: Any) -> Any:
    """Return options as JSON holds them."""
    return json.loads(json.dumps(thing, default=lambda value: np.asarray(value).tolist()))
