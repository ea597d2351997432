"""Posteriors of a local copy of posteriordb: programs, data and reference draws, by name.

References
----------
Magnusson et al. (2025), posteriordb: Testing, Benchmarking and Developing Bayesian Inference
Algorithms, AISTATS. The layout is that of github.com/stan-dev/posteriordb; nothing is fetched.

"""

import difflib
import json
import os
from os import PathLike
from typing import Any, NamedTuple

from stanadapt import results
from stanadapt.errors import StanadaptError
from stanadapt.targets.reference_draws import draws_of
from stanadapt.targets.stored_json import read_json, stored
from stanadapt.targets.target import Target

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
