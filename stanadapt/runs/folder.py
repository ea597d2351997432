"""A run folder: the arguments of a run, its draws, and the states of its chains.

    run.json            the manifest: arguments, sampler, versions of the libraries
    program.stan, data.json (data.npz if large), prior_data.json
    start.npz           coordinates and attributes computed before the first iteration
    <phase>_<kind>.npy  draws and statistics, shape (chain, draw, number)
    chains.npz          all chains at the last pooling, or at their start
    chain_<i>.npz       one chain at a later time

Draws are written in place; they count once a later checkpoint includes them. Checkpoints are
written to another file, flushed and renamed. Space for all draws is allocated before the first
draw, so that a full disk is an error then and not later.
"""

import contextlib
import itertools
import json
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stanadapt.engine.chain import KINDS, Chain
from stanadapt.engine.plan import Plan
from stanadapt.errors import StanadaptError
from stanadapt.results import as_path, replace_file

# raise it when older runs become unreadable, for example when a class of a state moves: files name
# classes by their modules (`tree`)
FORMAT = 6
MANIFEST = "run.json"
# the manifest's entry that lists why the run was extended
LENGTHENED = "lengthened"
# arguments of a run: entries of the manifest, and words for them
COMPARED = {"program_hash": "program", "data_hash": "data set", "sampler": "sampler"}
PHASES = ("warmup", "sampling")


def require_empty(path: Path) -> None:
    """Raise StanadaptError unless a run may begin in a folder; one that holds a run passes."""
    if (path / MANIFEST).exists():
        return  # refused when the new run is known, with a comparison of the two
    if os.path.lexists(path) and (not path.is_dir() or any(path.iterdir())):
        raise StanadaptError(
            "folder_not_empty", f"{path} is not an empty folder: choose a new one for the run."
        )


class RunFolder:
    """The files of a run; the manifest has the contents of `run.json`."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path, self.manifest = path, manifest
        import filelock  # with it come asyncio and ssl

        self._lock = filelock.FileLock(path / "lock")

    @classmethod
    def create(cls, path: str | os.PathLike, manifest: Mapping[str, Any]) -> "RunFolder":
        """Create a folder for a new run; StanadaptError, stage "files", if it is not empty."""
        folder = cls(Path(path), {"format": FORMAT, **manifest})
        if (folder.path / MANIFEST).exists():
            raise StanadaptError("run_exists", f"{path} already contains a run{folder._advice()}")
        require_empty(folder.path)
        with writing(folder.path):
            folder.path.mkdir(parents=True, exist_ok=True)
        return folder

    @classmethod
    def open(cls, path: str | os.PathLike) -> "RunFolder":
        """Open the folder of a run that has started; StanadaptError, stage "files", if none is."""
        path = as_path(path)
        try:
            manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
            written = manifest["format"]
        except NotADirectoryError:
            raise StanadaptError(
                "no_run",
                f"{path} is a file, and no folder that was given to sample as `run` (--run). To go "
                "on from a saved fit, sample again with warm_start (--warm-start).",
            ) from None
        except FileNotFoundError:
            raise StanadaptError(
                "no_run",
                f"{path} contains no run that can be read. It must be the folder that was given to "
                "sample as `run`, and the run must have reached its first iteration. If it was "
                "stopped before that, remove the folder and sample again.",
            ) from None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise _unreadable(path / MANIFEST, error) from None
        if written != FORMAT:
            raise StanadaptError(
                "other_format",
                f"the run in {path} has format {written}, and this version of stanadapt reads "
                f"format {FORMAT} only. Resume it with the version that wrote it, stanadapt "
                f"{manifest.get('stanadapt', 'of unknown version')}, or sample again in another "
                "folder.",
            )
        return cls(path, manifest)

    def _advice(self) -> str:
        """How the run in the folder differs from this one, and the remedy."""
        try:
            there = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
            held = {**there["attributes"], "sampler": there["sampler"]}
            if there["format"] != FORMAT:
                return f" of format {there['format']}, not {FORMAT}: choose another folder."
        except (OSError, ValueError, KeyError, TypeError):
            return ", which cannot be read: choose another folder."
        here = {**self.manifest["attributes"], "sampler": self.manifest["sampler"]}
        others = [
            f"another {what} ({held.get(name)} there, {here[name]} here)"
            for name, what in COMPARED.items()
            if held.get(name) != here[name]
        ]
        resume = f"stanadapt.resume({str(self.path)!r}) or `stanadapt resume`"
        if not others:
            return (
                f" of the same program, data and sampler: continue it with {resume}, or choose "
                "another folder."
            )
        return (
            f" with {' and '.join(others)}: choose another folder for this one. {resume} would "
            "continue the old run, with what it began with."
        )

    def lock(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context that excludes other writers; StanadaptError if there is one already."""
        try:
            return self._lock.acquire(timeout=0)
        except TimeoutError:
            raise StanadaptError(
                "run_in_use",
                f"another process is writing the run in {self.path}: wait for it, or stop it. "
                f"stanadapt.load({str(self.path)!r}) reads the draws so far.",
            ) from None

    def write_text(self, name: str, text: str) -> None:
        """Write a text file completely or not at all."""
        self._write(name, lambda file: file.write(text.encode()))

    def write_arrays(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write an .npz file completely or not at all."""
        self._write(name, lambda file: np.savez(file, allow_pickle=False, **arrays))

    def write_manifest(self) -> None:
        """Write `run.json`: the last file of a new run, since it makes the folder a run."""
        self.write_text(MANIFEST, json.dumps(self.manifest, indent=1))

    def read_text(self, name: str) -> str:
        """Contents of a text file."""
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise _unreadable(self.path / name, error) from None

    def read_arrays(self, name: str) -> dict[str, np.ndarray]:
        """Contents of an .npz file."""
        try:
            # given a name, NumPy would leave a damaged file open
            with (self.path / name).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return dict(arrays)
        except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
            raise _unreadable(self.path / name, error) from None

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
        """Make chains record into the files, which are `new`, or extended if they are too short."""
        plan = chains[0].plan
        rows = {"warmup": plan.warmup_draws, "sampling": plan.draws}
        for phase in phases:
            for kind in KINDS:
                array = getattr(getattr(chains[0], phase), kind)
                if array is None or not rows[phase]:
                    continue
                shape = len(chains), rows[phase], array.shape[1]
                # there is nothing to write if the sampler records no numbers of this kind
                name = f"{phase}_{kind}.npy"
                whole = self._array(name, shape, new) if shape[2] else np.empty(shape)
                for chain, share in zip(chains, whole, strict=True):
                    setattr(getattr(chain, phase), kind, share)

    def lengthen(self, chains: list[Chain], reasons: list[str]) -> None:
        """Extend the files for chains with a longer plan; record that plan and the reasons."""
        self.give_memory(chains, ("sampling",))
        self.manifest[LENGTHENED] = reasons
        self.write_plan(chains[0].plan)

    @property
    def lengthened(self) -> list[str]:
        """Reasons why the run has been extended so far."""
        return [*self.manifest.get(LENGTHENED, [])]

    def write_plan(self, plan: Plan) -> None:
        """Record the plan, and so the length of the run."""
        self.manifest["plan"] = plan._asdict()
        self.write_manifest()

    def _array(self, name: str, shape: tuple[int, int, int], new: bool) -> np.memmap:
        path = self.path / name
        with writing(self.path):
            if new:
                return _allocate(path, shape)
            array = _open(path, "r+")
            if array.shape == shape:
                return array
            if array.ndim != 3 or (array.shape[0], array.shape[2]) != (shape[0], shape[2]):
                chains, _, numbers = shape
                other = f"{chains} chains and {numbers} numbers per draw do not fit {array.shape}"
                raise _unreadable(path, ValueError(other))
            partial = path.with_name(f".{name}.partial")
            longer = _allocate(partial, shape)
            rows = min(array.shape[1], shape[1])
            longer[:, :rows] = array[:, :rows]
            longer.flush()
            partial.replace(path)
            return longer

    def flush(self) -> None:
        """Return once the draws recorded so far are on the disk.

        On POSIX systems `fsync` also writes changes that were made in memory; Python's call for
        memory maps stops all threads. Other systems write them anyway, even after a kill.
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
            return {name: _open(self.path / f"{name}.npy", "c") for name in present}


def _open(path: Path, mode: Any) -> np.memmap:
    try:
        # a truncated file is an error only in mode "r": in "r+", NumPy extends it with zeros
        np.lib.format.open_memmap(path, mode="r")
        return np.lib.format.open_memmap(path, mode=mode)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> StanadaptError:
    return StanadaptError("run_unreadable", f"{path} cannot be read: {error}.")


def _allocate(path: Path, shape: tuple[int, int, int]) -> np.memmap:
    """Return a new array on disk; OSError if there is no space for all of it."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=shape)
    if hasattr(os, "posix_fallocate"):  # without it, a full disk ends the process later
        try:
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        except OSError:
            path.unlink(missing_ok=True)
            raise
    return array


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError into a StanadaptError, stage "files"."""
    try:
        yield
    except OSError as error:
        raise StanadaptError(
            "run_not_writable",
            f"the run cannot be written to {path}: {error.strerror or error}. Choose a folder for "
            "which you have write permission, on a disk with enough space.",
        ) from None
