"""A run as plain data: what another process needs to make the same target and the same chains.

A worker of an executor is sent a `RunSpec`; a run folder keeps it as `run.json`, with program, data
and arrays in files next to it.
"""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.chain import ChainDesign
from stanadapt.engine.compiled.dependencies import hash_of_sampler
from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import REGISTRY, Sampler
from stanadapt.engine.settings import as_chosen
from stanadapt.engine.warmup import NO_BOUNDS
from stanadapt.errors import Message, StanadaptError
from stanadapt.results.attributes import library_versions
from stanadapt.results.labels import plain_labels
from stanadapt.runs.chains import bounds_for
from stanadapt.runs.folder import RunFolder
from stanadapt.runs.result import SavedGroups, attributes_at_start, stat_labels
from stanadapt.runs.tree import packed, unpacked
from stanadapt.samplers import find
from stanadapt.targets.stan import data as stan_data
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.program import Program, read
from stanadapt.targets.standardized import Standardized
from stanadapt.targets.target import Samplable, StandardCoordinates, Target

# files of a run folder with the texts of a description
TEXTS = {"code": "program.stan", "data": "data.json", "prior_data": "prior_data.json"}
# in place of the data as text; its names begin with data/
LARGE_DATA = "data.npz"
START = "start.npz"  # learned before the first iteration
# parts of a sampler that `find` returns as they hold under its settings
BY_SETTINGS = ("uses_gradient", "adapts_forever", "standardize", "exact")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class RunSpec(NamedTuple):
    """Target, sampler and lengths of a run."""

    # versions of the package and of the libraries that draws depend on
    stanadapt: str
    versions: dict[str, str]
    # the Stan program: name, text, data (as JSON in a folder), and options of `Target`
    name: str
    code: str
    data: CheckedData | str
    options: dict[str, Any]
    backend_reason: str  # why its backend was chosen
    remake: Callable[[Target], Samplable] | None  # `Samplable.remake` of the target
    described: str  # `repr` of the target if that is not the program itself; "" otherwise
    coordinates: StandardCoordinates | None  # of the chains; None for those of the target
    # JSON under which the program is the reference of a tempering sampler, or None
    prior_data: str | None
    sampler: str
    sampler_hash: str  # `source_hash` of it
    settings: dict[str, Any]
    plan: Plan
    save: SavedGroups  # the extra groups of the result

    def make_program(self, show_progress: bool = False) -> Target:
        """Make the program under its data, in its own coordinates."""
        program = Program(self.name, self.code, None, ())
        made = Target(program, self.data, **self.options, show_progress=show_progress)
        made.backend_reason = self.backend_reason
        return made

    def make_target(self) -> Samplable:
        """Make the target, in the coordinates of the chains."""
        base = self.make_program()
        return self.in_coordinates(base if self.remake is None else self.remake(base))

    def in_coordinates(self, target: Samplable) -> Samplable:
        """Return a target in the coordinates that the chains move in."""
        return target if self.coordinates is None else Standardized(target, *self.coordinates)

    def find_sampler(self) -> tuple[Sampler, Any]:
        """Return the sampler and its settings.

        Raises StanadaptError: "run_mismatch" if it is not registered here, or its code has changed.
        """
        try:
            sampler, settings = find(self.sampler, **self.settings)
        except StanadaptError as error:
            raise StanadaptError(
                "run_mismatch",
                f"the sampler {self.sampler} of the run has changed or is not registered: "
                f"{error.message} If it is your own sampler, import its file first; workers must "
                "import it when they start.",
            ) from None
        python = self.sampler_hash.partition(" ")[0]
        if python == PYTHON or not python.startswith("3."):  # of another one, it cannot be known
            now, then = source_hash(sampler), self.sampler_hash
            require_same(f"code of the sampler {self.sampler}", now, then)
        return sampler, settings

    def make_design(self, target: Target) -> ChainDesign:
        """Return the parts that the chains share."""
        columns, save = len(target.column_names), self.save
        sampler, settings = self.find_sampler()
        own = self.coordinates is None and not self.described
        return ChainDesign(
            sampler, settings, self.plan, columns, save.positions, save.keeps_extra(sampler),
            bounds=bounds_for(target, sampler) if own else NO_BOUNDS,
        )  # fmt: skip

    def manifest(self, target: Samplable, design: ChainDesign) -> dict[str, Any]:
        """Return the contents of `run.json`: this, without texts and arrays, and names of columns.

        The attributes of the result are those that are known before the first iteration, so that
        draws of an unfinished run are judged by them.
        """
        program, sampler = target.target, design.sampler
        attributes = attributes_at_start(target, sampler, design.settings, design.plan)
        elsewhere = (*TEXTS, "coordinates", "remake")
        named = {name: x for name, x in self._asdict().items() if name not in elsewhere}
        return {
            **named,
            "created_at": datetime.now(UTC).isoformat(),
            "options": _plain({**self.options, "labels": plain_labels(program.labels)}),
            "plan": self.plan._asdict(),
            "save": self.save._asdict(),
            "prior": program.prior_file,
            "files": {
                kind: str(path.absolute())
                for kind, path in (("program", program.program.path), ("data", program.data_file))
                if path is not None
            },
            "columns": program.column_names,
            "statistics": stat_labels(target, sampler),
            "attributes": _plain(attributes),
        }

    def write(
        self, folder: RunFolder, positions: Any, attributes: dict[str, Any], notes: list[str]
    ) -> None:
        """Write texts and arrays into a run folder, and what else the run began with."""
        for field, name in TEXTS.items():
            text = getattr(self, field)
            if isinstance(text, CheckedData) and text.is_numeric:
                folder.write_arrays(LARGE_DATA, {f"data/{n}": x for n, x in text.entries.items()})
            elif text is not None:
                folder.write_text(name, text.text if isinstance(text, CheckedData) else text)
        begun = {"positions": list(positions), "attributes": attributes, "notes": list(notes)}
        folder.write_arrays(START, packed({"coordinates": self.coordinates, **begun}))


def spec_of(
    target: Samplable, design: ChainDesign, save: SavedGroups, prior_data: str | None = None
) -> RunSpec:
    """Describe a run of chains of one design on a target, given in their coordinates."""
    program, base = target.target, target.base
    return RunSpec(
        stanadapt=version("stanadapt"),
        versions=library_versions(),
        name=program.name,
        code=program.program.code,
        data=program.checked,
        options=program.options,
        backend_reason=program.backend_reason,
        remake=base.remake,
        described=program.described if base is program else repr(base),
        coordinates=target.standard_coordinates,
        prior_data=prior_data,
        sampler=design.sampler.name,
        # as it is registered: to learn scales for others, it has another warm-up
        sampler_hash=source_hash(REGISTRY[design.sampler.settings]),
        settings=as_chosen(design.settings),
        plan=design.plan,
        save=save,
    )


def read_spec(folder: RunFolder) -> tuple[RunSpec, dict[str, Any]]:
    """Read the description of a run from its folder, and what else it began with.

    The latter are positions by chain, and attributes and notes of the result.
    """
    manifest, begun = folder.manifest, unpacked(folder.read_arrays(START))
    held = {name: manifest[name] for name in RunSpec._fields if name in manifest}
    texts = {
        field: read_data(folder) if field == "data" else folder.read_text(name)
        for field, name in TEXTS.items()
        if field != "prior_data" or (folder.path / name).exists()
    }
    held |= {"plan": Plan(**manifest["plan"]), "save": SavedGroups(**manifest["save"])}
    held |= {"remake": None, "prior_data": None, "coordinates": begun.pop("coordinates")}
    return RunSpec(**{**held, **texts}), begun


def read_data(folder: RunFolder) -> CheckedData | str:
    """Read the data of a run: JSON text, or arrays if they are large."""
    if not (folder.path / LARGE_DATA).exists():
        return folder.read_text(TEXTS["data"])
    held = folder.read_arrays(LARGE_DATA)
    return CheckedData({name.removeprefix("data/"): array for name, array in held.items()})


def target_for(spec: RunSpec, folder: RunFolder, given: Any, show_progress: bool) -> Samplable:
    """Return the target of a run that is resumed, in the coordinates of its chains.

    It is the one that the user made again, `given`, or else it is made from the folder.

    Raises StanadaptError: "run_mismatch" if program, data, backend, noise or the stored columns
    differ from those of the run; "run_needs_target" if a pseudo-extension is not given.
    """
    manifest, where = folder.manifest, f" in {folder.path}"
    given = program_of(spec, show_progress) if given is None else given
    program, hashes = given.target, manifest["attributes"]
    require_same(f"program{where}", program.program.hash, hashes["program_hash"])
    require_same(f"data{where}", program.data_hash, hashes["data_hash"])
    require_same(f"backend{where}", program.backend, spec.options["backend"])
    for option in ("noise", "rho", "exclude"):
        now, then = getattr(program, option), spec.options[option]
        require_same(f"target's {option}", _shown(now), _shown(then))
    columns = ("\n".join(names).encode() for names in (program.column_names, manifest["columns"]))
    now, then = (sha256(text).hexdigest()[:16] for text in columns)
    require_same(f"list of columns{where}", now, then)
    described = program.described if program is given else repr(given)
    require_same(f"pseudo-extension{where}", described, spec.described)
    return spec.in_coordinates(given)


def program_of(spec: RunSpec, show_progress: bool) -> Target:
    """Make the target of a run from its description, in its own coordinates.

    Raises StanadaptError: "run_needs_target" if it is more than the program under its data.
    """
    if spec.described:
        raise StanadaptError(
            "run_needs_target",
            f"the target of the run is {spec.described}: create it again and pass it as `target`.",
        )
    return spec.make_program(show_progress)


def record_changes(folder: RunFolder, target: Samplable) -> None:
    """Let the manifest, when it is written next, have a target's labels, and its prior if any."""
    folder.manifest["options"]["labels"] = _plain(plain_labels(target.target.labels))
    if target.target.prior_file is not None:
        folder.manifest["prior"] = target.target.prior_file


def changed_files(folder: RunFolder, target: Target) -> list[Message]:
    """Return a note for each file of a run, program and data, that has other contents by now."""
    notes = []
    for kind, name in folder.manifest.get("files", {}).items():
        path = Path(name)
        then = target.program.hash if kind == "program" else target.data_hash
        if path.exists() and _hash_of_file(kind, path, target.program) != then:
            notes.append(Message(
                "file_changed_since",
                f"{path} has changed since the run in {folder.path} began, and the run continues "
                f"with the old {kind}, which its folder holds. For a fit with the new {kind}, call "
                "sample with another folder.",
            ))  # fmt: skip
    return notes


def _hash_of_file(kind: str, path: Path, old: Program) -> str:
    try:
        if kind == "program":
            return read(path, old.include_paths).hash
        return stan_data.check(path, old, compiled=True).digest(old.data_names)
    except StanadaptError:
        return ""


def source_hash(sampler: Sampler) -> str:
    """Hash of a sampler's code: another version of it would continue differently.

    It begins with the version of Python, since each has another bytecode.
    """
    parts = [
        part
        for part in sampler._asdict().items()
        if part[0] not in BY_SETTINGS and part not in Sampler._field_defaults.items()
    ]
    return f"{PYTHON} {hash_of_sampler(sampler.step, parts)[:16]}"


def require_sendable(target: Samplable, spec: RunSpec) -> None:
    """Raise StanadaptError if a worker cannot make the target from plain data."""
    if spec.described and spec.remake is None:
        raise StanadaptError(
            "not_an_executor",
            f"executor: {target!r} cannot be sent to a worker: leave executor out.",
        )


def other_versions(spec: RunSpec) -> list[str]:
    """Return a note if libraries differ from those with which the run began."""
    now = {"stanadapt": version("stanadapt"), **library_versions()}
    then = {"stanadapt": spec.stanadapt, **spec.versions}
    changed = [f"{n} {then.get(n, '?')}, now {now[n]}" for n in now if now[n] != then.get(n)]
    if not changed:
        return []
    return [
        Message(
            "other_versions",
            f"the run began with {'; '.join(changed)}: from now on, its draws may differ in the "
            "last digits from those of an uninterrupted run.",
        )
    ]


def require_same(what: str, now: str, then: str) -> None:
    """Raise StanadaptError unless a part of a run is as it was."""
    if now != then:
        raise StanadaptError(
            "run_mismatch",
            f"the {what} is not that of the run ({now or 'none'} instead of {then or 'none'}): "
            "use the one with which the run began, or start a new run.",
        )


def _shown(option: Any) -> str:
    """Text of an option that is the same if it has the same effect: names may be in any order."""
    if isinstance(option, int | float):
        return str(float(option))
    return ", ".join(sorted(option))


def _plain(options: Any) -> Any:
    return json.loads(json.dumps(options, default=lambda value: np.asarray(value).tolist()))
