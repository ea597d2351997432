"""The bundled Stan programs: their names, descriptions and data sets."""

from pathlib import Path
from typing import NamedTuple

from stanadapt.engine.compiled.cache_folder import cache_root
from stanadapt.errors import StanadaptError, did_you_mean

_PACKAGE = Path(__file__).resolve().parents[2]
_IN_WHEEL = _PACKAGE / "stan_models"

# The programs are inside the package in a wheel, and next to it in the repository.
ROOT = _IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parent / "stan_models"

# data whose licenses do not allow all uses: `make_data --fetch` writes them to the user's cache
FETCH = (
    "Its owner allows non-commercial research and education only, so it is not bundled. From a "
    "clone, fetch it: pip install -e '.[data]', and python -m workflows.data.make_data --fetch."
)
NOT_BUNDLED = {("logistic", "caravan"): FETCH}
KNOWN_MOMENTS = "known_moments"  # this JSON file is not data of the program


class BundledProgram(NamedTuple):
    """A Stan program and its data sets."""

    # name, path: name of the program; path of its .stan file
    name: str
    path: Path
    description: str  # first paragraph of the comment at the top of the program
    data: dict[str, Path]  # paths of the data sets by name, sorted


def available(root: Path = ROOT) -> dict[str, BundledProgram]:
    """Return the bundled programs by name, sorted."""
    paths = [folder / f"{folder.name}.stan" for folder in sorted(root.glob("*/"))]
    return {path.stem: _program(path) for path in paths if path.is_file()}


def fetched() -> Path:
    """Return the folder of data that were fetched, by program."""
    return cache_root() / "stan_models"


def require(name: str, root: Path = ROOT) -> BundledProgram:
    """Return the bundled program of a name."""
    programs = available(root)
    if name not in programs:
        raise StanadaptError(
            "unknown_bundled_program",
            f"There is no bundled program {name!r}, and the name of a program's file must end in "
            f".stan.{did_you_mean(name, programs)} `stanadapt models` lists the bundled programs.",
        )
    return programs[name]


def find(name: str, data: str | None = None, root: Path | None = None) -> tuple[Path, Path | None]:
    """Return the paths of a bundled program and of one of its data sets.

    Parameters
    ----------
    name : str
        Name of the program (`stanadapt models` lists them).
    data : str, optional
        Name of the data set; optional for a program with at most one.
    root : path, optional
        Another folder of programs, each with its data in its own folder.

    Returns
    -------
    tuple
        Paths of the .stan file and of the JSON file, which is None for a program without data.

    Raises
    ------
    StanadaptError
        "unknown_bundled_program" or "unknown_data_set", with the names that exist.

    Examples
    --------
    >>> from stanadapt.targets.stan import bundled
    >>> program, data = bundled.find("logistic", "pima")
    >>> program.name, data.name
    ('logistic.stan', 'pima.json')
    """
    program = require(name, ROOT if root is None else root)
    if data is None and len(program.data) <= 1:
        return program.path, next(iter(program.data.values()), None)
    if data not in program.data:
        problem = "needs one of its data sets" if data is None else f"has no data set {data!r}"
        existing = ", ".join(program.data) or "none"
        raise StanadaptError(
            "unknown_data_set",
            f"The bundled program {name!r} {problem}. There are: {existing}. "
            f"{NOT_BUNDLED.get((name, str(data)), '')}".rstrip(),
        )
    return program.path, program.data[data]


def _program(path: Path) -> BundledProgram:
    folders = path.parent, fetched() / path.stem
    found = (file for folder in folders for file in folder.glob("*.json"))
    files = sorted((file for file in found if file.stem != KNOWN_MOMENTS), key=lambda f: f.stem)
    return BundledProgram(
        name=path.stem,
        path=path,
        description=_leading_comment(path.read_text(encoding="utf-8")),
        data={file.stem: file for file in files},
    )


def _leading_comment(source: str) -> str:
    """Return the first paragraph of `//` lines at the top of a program, as one line."""
    words = []
    for line in source.splitlines():
        text = line.strip()
        if not text.startswith("//") or text == "//":
            break
        words += text.removeprefix("//").split()
    return " ".join(words)
