"""A run folder: what was asked for, the draws, and where the chains are.

    run.json            what was asked for, by whom, with which versions
    program.stan, data.json, prior_data.json
    start.npz           coordinates and attributes that were found before the first iteration
    <phase>_<what>.npy  draws and statistics, shape (chain, draw, number)
    chains.npz          all chains when they were last pooled, or had just been made
    chain_<i>.npz       a chain since then

Draws are written in place, and counted only by a checkpoint that follows them. Checkpoints are
written by `results.replace_file`. Space for all draws is taken before the first one, so that a
full disk is an error then and not later.
"""

import contextlib
import itertools
import json
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import filelock
import numpy as np

from stanadapt.engine.chain import Chain
from stanadapt.engine.plan import Plan
from stanadapt.errors import StanadaptError
from stanadapt.results import replace_file

FORMAT = 1
MANIFEST = "run.json"
# its entry on why a run has become longer than it was asked for
LENGTHENED = "lengthened"
PHASES = ("warmup", "sampling")
KINDS = ("constrained", "stats", "unconstrained", "extra")


class RunFolder:
    """The files of a run.

    Parameters
    ----------
    path
        Of the folder.
    manifest
        Contents of `run.json`.

    """

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path, self.manifest = path, manifest
        self._lock = filelock.FileLock(path / "lock")

    @classmethod
    def create(cls, path: str | os.PathLike, manifest: Mapping[str, Any]) -> "RunFolder":
        """Make a folder for a new run; StanadaptError, stage "files", if it is not empty."""
        folder = cls(Path(path), {"format": FORMAT, **manifest})
        if (folder.path / MANIFEST).exists():
            raise StanadaptError(
                "files",
                f"{path} holds a run already: go on with it by stanadapt.resume({str(path)!r}), or "
                "`stanadapt resume`, or name another folder.",
            )
        if folder.path.exists() and (not folder.path.is_dir() or any(folder.path.iterdir())):
            raise StanadaptError(
                "files", f"{path} is not an empty folder: name a new one for the run."
            )
        with writing(folder.path):
            folder.path.mkdir(parents=True, exist_ok=True)
        return folder

    @classmethod
    def open(cls, path: str | os.PathLike) -> "RunFolder":
        """Open the folder of a run that has begun."""
        try:
            manifest = json.loads((Path(path) / MANIFEST).read_text(encoding="utf-8"))
            known = manifest["format"]
        except FileNotFoundError:
            raise StanadaptError(
                "files",
                f"{path} holds no run that can be resumed: the folder must be one that sample was "
                "given as `run`, and the run must have reached its first iteration. If it was "
                "stopped before that, remove the folder and sample again.",
            ) from None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise StanadaptError("files", f"{path}/{MANIFEST} cannot be read: {error}.") from None
        if known != FORMAT:
            raise StanadaptError(
                "files",
                f"{path} was written in format {known} by stanadapt {manifest.get('stanadapt')}, "
                f"and this version reads {FORMAT}: resume with that one.",
            )
        return cls(Path(path), manifest)

    def lock(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which no other process writes; StanadaptError if one does."""
        try:
            return self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise StanadaptError(
                "files",
                f"another process is writing the run in {self.path}: wait for it, or stop it. "
                f"stanadapt.load({str(self.path)!r}) reads the draws so far.",
            ) from None

    def write_text(self, name: str, text: str) -> None:
        """Write a text file as a whole or not at all."""
        self._write(name, lambda file: file.write(text.encode()))

    def write_arrays(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write an .npz file as a whole or not at all."""
        self._write(name, lambda file: np.savez(file, allow_pickle=False, **arrays))

    def write_manifest(self) -> None:
        """Write `run.json`: last of all at the beginning, since it makes the folder a run."""
        self.write_text(MANIFEST, json.dumps(self.manifest, indent=1))

    def read_text(self, name: str) -> str:
        """Contents of a text file."""
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise StanadaptError("files", f"{self.path / name} cannot be read: {error}.") from None

    def read_arrays(self, name: str) -> dict[str, np.ndarray]:
        """Contents of an .npz file."""
        try:
            with np.load(self.path / name, allow_pickle=False) as held:
                return dict(held)
        except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
            raise StanadaptError("files", f"{self.path / name} cannot be read: {error}.") from None

    def _write(self, name: str, fill: Any) -> None:
        with (
            writing(self.path),
            replace_file(self.path / name) as partial,
            partial.open("wb") as file,
        ):
            fill(file)

    def give_memory(
        self, chains: list[Chain], phases: Sequence[str] = PHASES, new: bool = False
    ) -> None:
        """Let chains record into the files, which are `new`, or made longer where needed."""
        plan = chains[0].plan
        rows = {"warmup": plan.warmup_draws, "sampling": plan.draws}
        for phase in phases:
            for kind in KINDS:
                array = getattr(getattr(chains[0], phase), kind)
                if array is None or not rows[phase]:
                    continue
                shape = len(chains), rows[phase], array.shape[1]
                # nothing to write where a sampler keeps no numbers of this kind
                name = f"{phase}_{kind}.npy"
                whole = self._array(name, shape, new) if shape[2] else np.empty(shape)
                for chain, share in zip(chains, whole, strict=True):
                    setattr(getattr(chain, phase), kind, share)

    def lengthen(self, chains: list[Chain], reasons: list[str]) -> None:
        """Give chains whose plan has grown room for more draws; write down that plan, and why."""
        self.give_memory(chains, ("sampling",))
        self.manifest[LENGTHENED] = reasons
        self.write_plan(chains[0].plan)

    @property
    def lengthened(self) -> list[str]:
        """Why the run has become longer so far."""
        return [*self.manifest.get(LENGTHENED, [])]

    def write_plan(self, plan: Plan) -> None:
        """Write down how long the run is to be."""
        self.manifest["plan"] = plan._asdict()
        self.write_manifest()

    def _array(self, name: str, shape: tuple[int, int, int], new: bool) -> np.memmap:
        path = self.path / name
        with writing(self.path):
            if new:
                return _allocated(path, shape)
            held = _opened(path, "r+")
            if held.shape == shape:
                return held
            partial = path.with_name(f".{name}.partial")
            longer = _allocated(partial, shape)
            kept = min(held.shape[1], shape[1])
            longer[:, :kept] = held[:, :kept]
            longer.flush()
            partial.replace(path)
            return longer

    def flush(self) -> None:
        """Return when the draws recorded before are on the disk.

        As `fsync`, which on POSIX systems writes what was changed in memory too: Python's own call
        for that stops all of its threads. Elsewhere, and after a kill, the system writes it anyway.
        """
        for phase, kind in itertools.product(PHASES, KINDS):
            path = self.path / f"{phase}_{kind}.npy"
            if path.exists():
                with writing(self.path), path.open("r+b") as file:
                    os.fsync(file.fileno())

    def private_arrays(self) -> dict[str, np.ndarray]:
        """Arrays of the folder by name, "sampling_stats"; changes to them are not written."""
        names = [f"{phase}_{kind}" for phase in PHASES for kind in KINDS]
        present = [name for name in names if (self.path / f"{name}.npy").exists()]
        with writing(self.path):
            return {name: _opened(self.path / f"{name}.npy", "c") for name in present}


def _opened(path: Path, mode: Any) -> np.memmap:
    try:
        # to be written to, NumPy would fill up a file that is too short with zeros
        np.lib.format.open_memmap(path, mode="r")
        return np.lib.format.open_memmap(path, mode=mode)
    except (OSError, ValueError) as error:
        raise StanadaptError("files", f"{path} cannot be read: {error}.") from None


def _allocated(path: Path, shape: tuple[int, int, int]) -> np.memmap:
    """Return a new array on disk; OSError if there is no space for all of it."""
    made = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=shape)
    if hasattr(os, "posix_fallocate"):  # elsewhere, a full disk ends the process when it is met
        try:
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        except OSError:
            path.unlink(missing_ok=True)
            raise
    return made


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system refuses into a StanadaptError, stage "files"."""
    try:
        yield
    except OSError as error:
        raise StanadaptError(
            "files",
            f"the run cannot be kept in {path}: {error.strerror or error}. Choose a folder on a "
            "disk with enough space that you may write to.",
        ) from None
