"""Posteriors of a local copy of posteriordb: programs, data and reference draws, by name.

References
----------
Magnusson et al. (2025), posteriordb: Testing, Benchmarking and Developing Bayesian Inference
Algorithms, AISTATS. The layout is that of github.com/stan-dev/posteriordb; nothing is fetched.

Files of a collection that may be compressed, or missing: each failure is one sentence.

Draws that a collection publishes as reference, as an ArviZ object that can be compared.

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
from stanadapt.results.labels import named_dimensions
from stanadapt.targets.stan import data as stan_data
from stanadapt.targets.target import Target


def stored(file: Path, owner: str, hint: str) -> Path:
    """Return the path of a file, or of the same one with .zip added; StanadaptError without either.

    owner is what needs it, hint what to try.
    """
    packed = file.with_name(f"{file.name}.zip")
    for path in (packed, file):
        if path.is_file():
            return path
    raise StanadaptError("files", f"{owner} needs {file}, which is missing. {hint}")


def read_json(file: Path, owner: str, hint: str) -> Any:
    """Read JSON, from the only JSON file of an archive where it is one."""
    try:
        if file.suffix != ".zip":
            return json.loads(file.read_text(encoding="utf-8"))
        with zipfile.ZipFile(file) as archive:
            # archives made on a Mac hold files of their own beside it
            names = [n for n in archive.namelist() if n.endswith(".json") and "__MACOSX" not in n]
            if len(names) != 1:
                raise ValueError(f"an archive of {len(names)} JSON files")
            return json.loads(archive.read(names[0]))
    except (OSError, ValueError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        what = getattr(error, "strerror", None) or error
        raise StanadaptError(
            "files", f"{owner} needs {file}, which cannot be read: {what}. {hint}"
        ) from None


NAME = re.compile(r"([A-Za-z]\w*)(?:\[([\d, ]+)\])?")  # "tau", "theta[3]", "L[2,1]"


def draws_of(name: str, file: Path, about: Any, target: Target | None = None) -> Any:
    """Read the draws of a posterior.

    Parameters
    ----------
    name
        Of the posterior.
    file
        JSON, or an archive of it: a list of chains, each a mapping of "theta[1]" to its draws.
    about
        What the database says of how they were made, for the attributes.
    target
        Its variables must have the shapes that the draws have.

    Raises
    ------
    StanadaptError
        Stage "files", for a file of another kind.

    """
    hint = "Get the file anew."
    chains = read_json(file, name, hint)
    try:
        columns = _columns(chains)
        variables = _variables(columns)
        if target is not None:
            _require_shapes(variables, target)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise StanadaptError(
            "files", f"{file} does not hold draws of {name}: {error}. {hint}"
        ) from None
    named = {} if target is None else named_dimensions(target.labels)
    return results.build(
        {"posterior": variables}, _attributes(name, variables, about, target), **named
    )


def _columns(chains: Any) -> dict[str, np.ndarray]:
    """Draws of every column, shape (chain, draw)."""
    if not isinstance(chains, list) or not chains or not all(isinstance(c, dict) for c in chains):
        raise ValueError("a list of chains was expected")
    names = list(chains[0])
    for number, chain in enumerate(chains, start=1):
        if list(chain) != names:
            raise ValueError(f"chain {number} has other variables than chain 1")
    columns = {n: np.array([chain[n] for chain in chains], dtype=float) for n in names}
    for column, values in columns.items():
        if values.ndim != 2 or values.shape != columns[names[0]].shape or not values.size:
            raise ValueError(f"{column} has not as many draws as {names[0]} in every chain")
    return columns


def _variables(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Variables of shape (chain, draw, ...), from columns with indices that count from 1."""
    parts: dict[str, dict[tuple[int, ...], np.ndarray]] = {}
    for column, values in columns.items():
        found = NAME.fullmatch(column)
        if not found:
            raise ValueError(f"{column!r} is no name of a variable")
        indices = tuple(int(i) - 1 for i in (found[2] or "").split(",") if i.strip())
        parts.setdefault(found[1], {})[indices] = values
    return {name: _whole(name, scalars) for name, scalars in parts.items()}


def _whole(name: str, scalars: dict[tuple[int, ...], np.ndarray]) -> np.ndarray:
    """Put the components of a variable together."""
    if len({len(index) for index in scalars}) > 1:
        raise ValueError(f"components of {name} have different numbers of indices")
    first = next(iter(scalars.values()))
    shape = tuple(int(largest) + 1 for largest in np.max(list(scalars), axis=0))
    if set(scalars) != set(np.ndindex(shape)):
        raise ValueError(f"{name} lacks some of its components")
    whole = np.empty((*first.shape, *shape))
    for index, values in scalars.items():
        place: Any = (slice(None), slice(None), *index)
        whole[place] = values
    return whole


def _require_shapes(variables: dict[str, np.ndarray], target: Target) -> None:
    shapes = results.shapes(target.column_names)
    common = [name for name in variables if name in shapes]
    if not common:
        raise ValueError(f"they are of {', '.join(variables)}, the program has {', '.join(shapes)}")
    for name in common:
        if variables[name].shape[2:] != shapes[name]:
            raise ValueError(
                f"{name} has shape {variables[name].shape[2:]}, in the program {shapes[name]}"
            )


def _attributes(
    name: str, variables: dict[str, np.ndarray], about: Any, target: Target | None
) -> dict[str, Any]:
    about = about if isinstance(about, dict) else {}
    versions = about.get("versions") if isinstance(about.get("versions"), dict) else {}
    with_what = next((str(v) for n, v in versions.items() if n.endswith("stan_version")), "")
    attributes = {
        "sampler": "reference draws",
        # of Stan's own density, not ours: `compare` measures the others against them
        "engine": f"posteriordb{f', {with_what}' if with_what else ''}",
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
            "data_hash": stan_data.digest(target.data),
        }
    return attributes


INSIDE = "posterior_database"
HINT = "Update the clone (git pull), or take another posterior."


class Posterior(NamedTuple):
    """One posterior of the database.

    name
        Of the posterior.
    program, data
        Names of the model and of the data.
    reference
        Name of the reference draws; None: there are none.
    dimensions
        Number of components by variable, as the database counts them.

    """

    name: str
    program: str
    data: str | None
    reference: str | None
    dimensions: dict[str, int]


class PosteriorDatabase:
    """A local copy of posteriordb.

    Parameters
    ----------
    path
        Of a clone of the repository, or of its folder posterior_database.

    Attributes
    ----------
    path
        The folder posterior_database.
    names
        Names of the posteriors, sorted.

    Raises
    ------
    StanadaptError
        Stage "files", where the folder holds no database.

    """

    def __init__(self, path: str | PathLike) -> None:
        given = results.as_path(path).expanduser()
        found = [root for root in (given / INSIDE, given) if os.path.isdir(root / "posteriors")]
        if not found:
            raise StanadaptError(
                "files",
                f"{given} holds no posteriors: give the path of a clone of posteriordb "
                "(github.com/stan-dev/posteriordb), or of its folder posterior_database.",
            )
        self.path = found[0]
        self.names = sorted(file.stem for file in (self.path / "posteriors").glob("*.json"))

    def __repr__(self) -> str:
        return f"PosteriorDatabase({str(self.path)!r}, {len(self.names)} posteriors)"

    def posterior(self, name: str) -> Posterior:
        """What the database says of a posterior; StanadaptError for a name that it lacks."""
        if name not in self.names:
            close = difflib.get_close_matches(str(name), self.names, n=3, cutoff=0.4)
            like = f" Names like it: {', '.join(close)}." if close else ""
            raise StanadaptError(
                "settings",
                f"{self.path} has no posterior {name!r} among its {len(self.names)}.{like}",
            )
        file = self.path / "posteriors" / f"{name}.json"
        known = read_json(file, name, HINT)
        program = known.get("model_name") if isinstance(known, dict) else None
        if not isinstance(program, str):
            raise StanadaptError("files", f"{file} names no model. {HINT}")
        dimensions = known.get("dimensions") or {}
        return Posterior(
            name, program, known.get("data_name"), known.get("reference_posterior_name"),
            dimensions if isinstance(dimensions, dict) else {},
        )  # fmt: skip

    def target(self, name: str, **options: Any) -> Target:
        """Make the target of a posterior; options are those of `Target`.

        Raises
        ------
        StanadaptError
            Stage "settings" for an unknown name, "files" where the copy lacks a file of it; and
            those of `Target`: programs in a syntax that Stan has given up are shown with its words.

        """
        known = self.posterior(name)
        program = stored(self.path / "models" / "stan" / f"{known.program}.stan", name, HINT)
        return Target(program, self._data(known), **options)

    def reference_draws(self, name: str, target: Target | None = None) -> Any:
        """Return the reference draws of a posterior as an ArviZ object, for `compare`.

        Parameters
        ----------
        name
            Of the posterior.
        target
            Made by `target`; with it the draws are checked against its variables, and carry its
            hashes, so that they are compared with fits of this posterior only.

        Raises
        ------
        StanadaptError
            Stage "settings", where the database has none; "files", where the copy lacks them or
            they are not draws of these variables.

        """
        known = self.posterior(name)
        if not known.reference:
            raise StanadaptError(
                "settings",
                f"posteriordb has no reference draws of {name}: compare with Stan's NUTS instead.",
            )
        folder = self.path / "reference_posteriors" / "draws"
        file = stored(folder / "draws" / f"{known.reference}.json", name, HINT)
        info = folder / "info" / f"{known.reference}.info.json"
        about = read_json(info, name, HINT) if info.is_file() else {}
        return draws_of(name, file, about, target)

    def _data(self, known: Posterior) -> str | None:
        if not known.data:
            return None
        file = stored(self.path / "data" / "data" / f"{known.data}.json", known.name, HINT)
        return json.dumps(read_json(file, known.name, HINT))


def posteriordb(path: str | PathLike) -> PosteriorDatabase:
    """Open a local copy of posteriordb, whose posteriors are then targets by name."""
    return PosteriorDatabase(path)


def about_posteriors(database: PosteriorDatabase) -> list[tuple[str, str, str]]:
    """Name, components and reference draws of every posterior, for a listing."""
    rows = []
    for name in database.names:
        known = database.posterior(name)
        sizes = ", ".join(f"{n} {size}" for n, size in known.dimensions.items())
        there = "" if known.reference is None else "reference draws"
        rows.append((name, sizes, there))
    return rows
