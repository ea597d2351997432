"""Posteriors of a local copy of posteriordb: programs, data and reference draws, by name.

Nothing is downloaded. Files may be compressed, and a copy may lack some of them. Reference draws
become ArviZ objects, which `compare` accepts like any fit.

References
----------
Magnusson et al. (2025), posteriordb: Testing, Benchmarking and Developing Bayesian Inference
Algorithms, AISTATS. The layout is that of github.com/stan-dev/posteriordb.
"""

import difflib
import json
import os
import re
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.errors import StanadaptError
from stanadapt.results.datasets import draws_dataset
from stanadapt.targets.target import Target

INSIDE = "posterior_database"
HINT = "Update the clone (git pull), or choose another posterior."
NAME = re.compile(r"([A-Za-z]\w*)(?:\[([\d, ]+)\])?")  # "tau", "theta[3]", "L[2,1]"


def find_file(file: Path, owner: str) -> Path:
    """Return the path of a file that `owner` needs, or of its archive, with .zip added."""
    packed = file.with_name(f"{file.name}.zip")
    for path in (packed, file):
        if path.is_file():
            return path
    raise StanadaptError(
        "posteriordb_file_missing", f"{owner} needs {file}, which is missing. {HINT}"
    )


def read_json(file: Path, owner: str) -> Any:
    """Read a JSON file, or the only JSON file of an archive."""
    try:
        if file.suffix != ".zip":
            return json.loads(file.read_text(encoding="utf-8"))
        with zipfile.ZipFile(file) as archive:
            # archives made on a Mac contain further files
            names = [n for n in archive.namelist() if n.endswith(".json") and "__MACOSX" not in n]
            if len(names) != 1:
                raise ValueError(f"an archive of {len(names)} JSON files")
            return json.loads(archive.read(names[0]))
    except (OSError, ValueError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StanadaptError(
            "posteriordb_file_broken",
            f"{owner} needs {file}, which cannot be read: {reason}. {HINT}",
        ) from None


def read_draws(name: str, file: Path, about: Any, target: Target | None = None) -> Any:
    """Read the reference draws of a posterior as an ArviZ object.

    The JSON file or archive has a list of chains, each a mapping of "theta[1]" to its draws;
    `about` is the database's description of the run, for the attributes. The shapes of the
    variables are compared with those of the posterior's target, if it is given.
    """
    chains = read_json(file, name)
    try:
        columns = _columns(chains)
        variables = _variables(columns)
        if target is not None:
            _require_shapes(variables, target)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise StanadaptError(
            "posteriordb_file_broken", f"{file} does not contain draws of {name}: {error}. {HINT}"
        ) from None
    named = () if target is None else (target.labels.dims, target.labels.coords)
    posterior = draws_dataset(variables, *named)
    return results.build({"posterior": posterior}, _attributes(name, variables, about, target))


def _columns(chains: Any) -> dict[str, np.ndarray]:
    """Return the draws of each column, shape (chain, draw)."""
    if not isinstance(chains, list) or not chains or not all(isinstance(c, dict) for c in chains):
        raise ValueError("a list of chains was expected")
    names = list(chains[0])
    for number, chain in enumerate(chains, start=1):
        if list(chain) != names:
            raise ValueError(f"chain {number} has other variables than chain 1")
    columns = {n: np.array([chain[n] for chain in chains], dtype=float) for n in names}
    for column, values in columns.items():
        if values.ndim != 2 or values.shape != columns[names[0]].shape or not values.size:
            raise ValueError(f"the number of draws of {column} differs from that of {names[0]}")
    return columns


def _variables(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return variables of shape (chain, draw, ...) from columns with indices from 1."""
    found: dict[str, dict[tuple[int, ...], np.ndarray]] = {}
    for column, values in columns.items():
        match = NAME.fullmatch(column)
        if not match:
            raise ValueError(f"{column!r} is not the name of a variable")
        indices = tuple(int(i) for i in (match[2] or "").split(",") if i.strip())
        found.setdefault(match[1], {})[indices] = values
    ordered = {  # as Stan orders them, the first index fastest
        ".".join(map(str, (name, *index))): scalars[index]
        for name, scalars in found.items()
        for index in sorted(scalars, key=lambda index: index[::-1])
    }
    return results.variables(list(ordered), np.stack(list(ordered.values()), axis=-1))


def _require_shapes(variables: dict[str, np.ndarray], target: Target) -> None:
    shapes = results.shapes(target.column_names)
    common = [name for name in variables if name in shapes]
    if not common:
        raise ValueError(
            f"its variables are {', '.join(variables)}, those of the program {', '.join(shapes)}"
        )
    for name in common:
        if variables[name].shape[2:] != shapes[name]:
            raise ValueError(
                f"{name} has shape {variables[name].shape[2:]}, but {shapes[name]} in the program"
            )


def _attributes(
    name: str, variables: dict[str, np.ndarray], about: Any, target: Target | None
) -> dict[str, Any]:
    about = about if isinstance(about, dict) else {}
    versions = about.get("versions") if isinstance(about.get("versions"), dict) else {}
    version = next((str(v) for n, v in versions.items() if n.endswith("stan_version")), "")
    attributes = {
        "sampler": "reference draws",
        # made with Stan's density, not ours, so `compare` uses them as the baseline
        "engine": f"posteriordb{f', {version}' if version else ''}",
        "engine_independent": True,
        "parameters": json.dumps(list(variables)),
        "posterior_name": name,
        "inference": about.get("inference") or {},
        "versions": versions,
    }
    if target is not None:
        attributes |= {
            "model": target.name,
            "program_hash": target.program.hash,
            "data_hash": target.data_hash,
        }
    return attributes


class Posterior(NamedTuple):
    """One posterior of the database."""

    name: str  # name of the posterior
    # program, data: names of the model and of the data
    program: str
    data: str | None
    reference: str | None  # name of the reference draws; None if there are none
    dimensions: dict[str, int]  # number of components by variable, as the database counts them


class PosteriorDatabase:
    """A local copy of posteriordb, as `posteriordb` opens it.

    `path` is its folder posterior_database, and `names` are those of the posteriors, sorted.
    """

    def __init__(self, path: str | PathLike) -> None:
        folder = results.as_path(path).expanduser()
        roots = [root for root in (folder / INSIDE, folder) if os.path.isdir(root / "posteriors")]
        if not roots:
            raise StanadaptError(
                "not_a_posteriordb",
                f"{folder} contains no posteriors: give the path of a clone of posteriordb "
                "(github.com/stan-dev/posteriordb), or of its folder posterior_database.",
            )
        self.path = roots[0]
        self.names = sorted(file.stem for file in (self.path / "posteriors").glob("*.json"))

    def __repr__(self) -> str:
        return f"PosteriorDatabase({str(self.path)!r}, {len(self.names)} posteriors)"

    def posterior(self, name: str) -> Posterior:
        """Return the database's entry for a posterior."""
        if name not in self.names:
            close = difflib.get_close_matches(str(name), self.names, n=3, cutoff=0.4)
            like = f" Names like it: {', '.join(close)}." if close else ""
            raise StanadaptError(
                "unknown_posterior",
                f"{self.path} has no posterior {name!r} among its {len(self.names)}.{like}",
            )
        file = self.path / "posteriors" / f"{name}.json"
        entry = read_json(file, name)
        program = entry.get("model_name") if isinstance(entry, dict) else None
        if not isinstance(program, str):
            raise StanadaptError("posteriordb_file_broken", f"{file} names no model. {HINT}")
        dimensions = entry.get("dimensions") or {}
        return Posterior(
            name=name,
            program=program,
            data=entry.get("data_name"),
            reference=entry.get("reference_posterior_name"),
            dimensions=dimensions if isinstance(dimensions, dict) else {},
        )

    def target(self, name: str, **options: Any) -> Target:
        """Make the target of a posterior.

        Parameters
        ----------
        name : str
            Name of the posterior.
        **options
            Further arguments of `Target`.

        Raises
        ------
        StanadaptError
            Stage "settings" for an unknown name, "files" if the copy lacks one of its files; also
            the errors of `Target`, such as "syntax" for programs that Stan no longer accepts.
        """
        posterior = self.posterior(name)
        program = find_file(self.path / "models" / "stan" / f"{posterior.program}.stan", name)
        data = None
        if posterior.data:
            data = find_file(self.path / "data" / "data" / f"{posterior.data}.json", name)
        return Target(program, data and json.dumps(read_json(data, name)), **options)

    def reference_draws(self, name: str, target: Target | None = None) -> Any:
        """Return the reference draws of a posterior as an ArviZ object, for `compare`.

        Parameters
        ----------
        name : str
            Name of the posterior.
        target : Target, optional
            The posterior's target. The draws are then checked against its variables and carry its
            hashes, so that `compare` accepts them only with fits of this posterior.

        Raises
        ------
        StanadaptError
            Stage "settings", if the database has no reference draws; "files", if the copy lacks
            them or they have other variables.
        """
        posterior = self.posterior(name)
        if not posterior.reference:
            raise StanadaptError(
                "no_reference_draws",
                f"posteriordb has no reference draws of {name}: compare with Stan's NUTS instead.",
            )
        folder = self.path / "reference_posteriors" / "draws"
        file = find_file(folder / "draws" / f"{posterior.reference}.json", name)
        info = folder / "info" / f"{posterior.reference}.info.json"
        about = read_json(info, name) if info.is_file() else {}
        return read_draws(name, file, about, target)


def posteriordb(path: str | PathLike) -> PosteriorDatabase:
    """Open a local copy of posteriordb, to make targets from its posteriors by name.

    Parameters
    ----------
    path : str or path
        A clone of github.com/stan-dev/posteriordb, or its folder posterior_database.

    Returns
    -------
    PosteriorDatabase
        Its attribute `names` lists the posteriors; `target(name)` and `reference_draws(name)`
        return a `Target` and an ArviZ object.

    Raises
    ------
    StanadaptError
        Stage "files", if the folder contains no database.

    Examples
    --------
    >>> from stanadapt.errors import StanadaptError
    >>> from stanadapt.targets.posteriordb import posteriordb
    >>> try:
    ...     database = posteriordb("no_such_folder")
    ... except StanadaptError as error:
    ...     print(error.code)
    not_a_posteriordb
    """
    return PosteriorDatabase(path)


def list_posteriors(database: PosteriorDatabase) -> list[tuple[str, str, str]]:
    """Return name, components and availability of reference draws of each posterior."""
    rows = []
    for name in database.names:
        posterior = database.posterior(name)
        sizes = ", ".join(f"{n} {size}" for n, size in posterior.dimensions.items())
        reference = "" if posterior.reference is None else "reference draws"
        rows.append((name, sizes, reference))
    return rows
