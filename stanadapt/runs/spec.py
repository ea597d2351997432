"""What a worker needs to make a chain: program text, data, settings, lengths; no address.

What a run was asked for, as text: target, sampler, settings, lengths; and back again.
"""

import inspect
import json
import secrets
import threading
from collections import OrderedDict
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.chain import Chain, ChainDesign
from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.registry import as_chosen, find
from stanadapt.errors import StanadaptError
from stanadapt.runs.attributes import RECORDED
from stanadapt.runs.chains import Start
from stanadapt.runs.folder import RunFolder
from stanadapt.runs.result import ExtraGroups, stat_labels
from stanadapt.samplers.tempering.extended import Extended, extended_again
from stanadapt.targets.stan import data as stan_data
from stanadapt.targets.stan.program import Program
from stanadapt.targets.standardized import Standardized
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
        "extended": "" if program is target.base else repr(target.base),
        "sampler": design.sampler.name,
        "sampler_hash": source_hash(design.sampler),
        "settings": as_chosen(design.settings),
        "plan": design.plan._asdict(),
        "keep": keep._asdict(),
        "parameters": [n for n in program.parameters if n not in program.noise],
        "columns": program.column_names,
        "statistics": stat_labels(target, chain),
    }


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


# runs whose target a worker keeps between two tasks
KEPT = 4


class Recipe(NamedTuple):
    """Plain data from which a worker makes the target and the design of a run.

    key
        Of the run: a worker that has seen it has them already.
    stanadapt, sampler_hash
        Version of the package and hash of the sampler's file, which must be those of the worker.
    name, code, data, options
        Of the target; data are JSON.
    extension
        Of an `Extended`: how the program is extended.
    location, factor
        Of standardized coordinates; None in the program's own.
    prior_data
        Data of the reference, where it is the program under other data.
    sampler, settings, plan, keep_unconstrained, keep_extra
        Of the chains.

    """

    key: str
    stanadapt: str
    sampler_hash: str
    name: str
    code: str
    data: str
    options: dict[str, Any]
    extension: dict[str, Any] | None
    location: np.ndarray | None
    factor: np.ndarray | None
    prior_data: str | None
    sampler: str
    settings: dict[str, Any]
    plan: Plan
    keep_unconstrained: bool
    keep_extra: bool


class Prior:
    """The program under prior-only data, as a reference; kept while its `handle` is used."""

    def __init__(self, target: Target, data: str) -> None:
        self._target = target.with_prior_data(data)
        self._density = self._target.density()
        self.handle = self._density.handle


class Made(NamedTuple):
    """What a worker has made of a recipe."""

    start: Start
    design: ChainDesign
    prior: Prior | None


def recipe_of(target: Samplable, design: ChainDesign, prior_data: str | None) -> Recipe:
    """Describe a run.

    Raises
    ------
    StanadaptError
        Stage "settings", for a target that is no program with its data.

    """
    program, base = target.target, target.base
    if base is not program and not isinstance(base, Extended):
        raise StanadaptError(
            "settings",
            f"executor: {target!r} cannot be sent to a worker: leave executor out.",
        )
    return Recipe(
        key=secrets.token_hex(8),
        stanadapt=version("stanadapt"),
        sampler_hash=source_hash(design.sampler),
        name=program.name,
        code=program.program.code,
        data=program.data,
        options=program.options,
        extension=base.options if isinstance(base, Extended) else None,
        location=target.location,
        factor=target.factor,
        prior_data=prior_data,
        sampler=design.sampler.name,
        settings=as_chosen(design.settings),
        plan=design.plan,
        keep_unconstrained=design.keep_unconstrained,
        keep_extra=design.keep_extra,
    )


_made: OrderedDict[str, Made] = OrderedDict()
_lock = threading.Lock()


def made(recipe: Recipe) -> Made:
    """Return the target and the design of a recipe; made once in each process.

    Raises
    ------
    StanadaptError
        Where this worker has another version of the package or of the sampler, or cannot make the
        target.

    """
    with _lock:
        if recipe.key not in _made:
            _made[recipe.key] = _make(recipe)
            while len(_made) > KEPT:
                _made.popitem(last=False)
        _made.move_to_end(recipe.key)
        return _made[recipe.key]


def _make(recipe: Recipe) -> Made:
    own = version("stanadapt")
    if own != recipe.stanadapt:
        raise StanadaptError(
            "installation",
            f"a worker has stanadapt {own}, the run {recipe.stanadapt}: install the same version.",
        )
    sampler, settings = _sampler(recipe)
    program = Program(recipe.name, recipe.code, None, ())
    base = Target(program, recipe.data, **recipe.options, show_progress=False)
    prior = None if recipe.prior_data is None else Prior(base, recipe.prior_data)
    target: Samplable = base
    if recipe.extension is not None:
        target = extended_again(base, recipe.extension)
    if recipe.location is not None and recipe.factor is not None:
        target = Standardized(target, recipe.location, recipe.factor)
    chains = recipe.plan.chains
    nowhere = [np.zeros(target.dim)] * chains  # a checkpoint says where chains are
    calls = np.zeros((chains, 3), np.int64)
    start = Start(target, nowhere, calls, np.zeros((chains, 2)), 0.0, {})
    design = ChainDesign(
        sampler, settings, recipe.plan, len(base.column_names), recipe.keep_unconstrained,
        recipe.keep_extra,
    )  # fmt: skip
    return Made(start, design, prior)


def _sampler(recipe: Recipe) -> tuple:
    try:
        sampler, settings = find(recipe.sampler, **recipe.settings)
    except StanadaptError as error:
        raise StanadaptError(
            "settings",
            f"a worker does not know the sampler {recipe.sampler}: {error.message} If it is one of "
            "your own, let workers import its file when they start.",
        ) from None
    if source_hash(sampler) != recipe.sampler_hash:
        raise StanadaptError(
            "settings", f"the file of the sampler {recipe.sampler} is another one on a worker."
        )
    return sampler, settings
