"""The Stan installation of this computer: CmdStan, BridgeStan's sources, compiler, versions.

Nothing here installs, downloads or changes the environment; `install_cmdstan.py` does that.
CmdStanPy is not imported, because that takes half a second and its `cmdstan_path()` sets the
environment variable CMDSTAN. Its rules for locating CmdStan are repeated here and tested against
it.
"""

import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from stanadapt.errors import StanadaptError
from stanadapt.results.attributes import version_of

WINDOWS = platform.system() == "Windows"
EXE = ".exe" if WINDOWS else ""
PACKAGES = (
    "stanadapt", "numpy", "numba", "llvmlite", "bridgestan", "stanli", "cmdstanpy", "arviz",
    "xarray", "matplotlib", "h5netcdf", "typer", "rich",
)  # fmt: skip

# Stan compilers that have run, with their modification times, because a run takes 30 ms
_WORKING: set[tuple[Path, int]] = set()
INSTALL_HINTS = {
    "Linux": "sudo apt install g++ make (Debian, Ubuntu), sudo dnf install gcc-c++ make (Fedora)",
    "Darwin": "xcode-select --install",
    "Windows": "run CmdStanPy's install_cxx_toolchain, which installs RTools, and add the folders "
    "usr\\bin and mingw64\\bin of RTools to PATH",
}


class CmdStan(NamedTuple):
    """A CmdStan that has been built and has a Stan compiler that runs."""

    path: Path
    version: str


def cmdstan() -> CmdStan | None:
    """Return the CmdStan that CmdStanPy would use; None if it is missing or does not work."""
    path = _cmdstan_path()
    if path is None or fault(path):
        return None
    text = (path / "makefile").read_text(encoding="utf-8", errors="replace")
    match = re.search(r"^CMDSTAN_VERSION\s*:=\s*(\S+)", text, re.MULTILINE)
    return CmdStan(path, match[1] if match else "unknown")


def require_cmdstan() -> CmdStan:
    """Return `cmdstan()`; StanadaptError, stage "installation", if it was removed."""
    installed = cmdstan()
    if installed is None:
        raise StanadaptError(
            "cmdstan_missing", "CmdStan is no longer there. Run `stanadapt install-cmdstan`."
        )
    return installed


def cmdstan_problem() -> str:
    """Explain why the CmdStan of CmdStanPy does not work; "" if it works or is missing."""
    path = _cmdstan_path()
    why = fault(path) if path else ""
    if not why:
        return ""
    if os.environ.get("CMDSTAN"):
        return (
            f"The environment variable CMDSTAN names {path}, which cannot be used: {why}. "
            "Unset CMDSTAN or set it to a working CmdStan."
        )
    return (
        f"{path} cannot be used: {why}. CmdStanPy uses the newest version in its folder, whether "
        "it works or not: remove this one and install again."
    )


def cmdstan_home() -> Path:
    """Return CmdStanPy's folder if CMDSTAN is not set."""
    return Path(os.path.expanduser("~/.cmdstan"))


def newest(names: list[str]) -> str | None:
    """Return CmdStanPy's choice among folder names `cmdstan-<version>`: the highest version.

    A single folder is chosen for any version. Among several, those without a version number are
    ignored, and so are names on which CmdStanPy would fail (a suffix such as `-old`).
    """
    names = [name for name in names if name.startswith("cmdstan-")]
    if len(names) == 1:
        return names[0]
    keys = {}
    for name in names:
        match = re.fullmatch(r"cmdstan-(\d+)\.(\d+)\.(\d+)(?:-rc(\d+))?", name)
        if match:  # a release candidate comes before its release
            *version, candidate = match.groups()
            keys[(*map(int, version), int(candidate) if candidate else 1000)] = name
    return keys[max(keys)] if keys else None


def newest_below(folder: Path) -> Path | None:
    """Return the CmdStan that CmdStanPy would choose in `folder`, working or not."""
    if not folder.is_dir():
        return None
    name = newest([entry.name for entry in folder.iterdir() if entry.is_dir()])
    return folder / name if name else None


def fault(path: Path) -> str:
    """Return a clause that explains why the CmdStan in `path` does not work; "" if it does.

    The last check runs stanc, because a tree for another system also has all files.
    """
    if not path.is_dir():
        return "this folder does not exist"
    if not (path / "makefile").is_file():
        return "it has no makefile"
    for name in ("stanc", "stansummary"):
        tool = path / "bin" / (name + EXE)
        if not tool.is_file():
            return f"bin/{tool.name} is missing, so the build was not run or did not finish"
        if not os.access(tool, os.X_OK):
            return f"bin/{tool.name} is not executable"
    stanc = path / "bin" / ("stanc" + EXE)
    checked = (stanc, stanc.stat().st_mtime_ns)
    if checked in _WORKING:
        return ""
    try:
        done = subprocess.run([stanc, "--version"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bin/{stanc.name} does not run on this computer ({error})"
    if done.returncode:
        return f"bin/{stanc.name} --version fails"
    _WORKING.add(checked)
    return ""


def bridgestan_tree() -> Path | None:
    """Return BridgeStan's sources, in the folder BRIDGESTAN or its download folder; or None."""
    named = os.environ.get("BRIDGESTAN")
    if named:
        tree = Path(named).absolute()
    else:
        version = version_of("bridgestan")
        tree = Path(os.path.expanduser(f"~/.bridgestan/bridgestan-{version}"))
    return tree if (tree / "Makefile").is_file() else None


def outdated_bridgestan(tree: Path) -> str | None:
    """Return a clause if BridgeStan's sources lack functions that its Python package calls."""
    try:
        text = (tree / "src" / "version.hpp").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None  # loading the library will show it
    parts = dict(re.findall(r"#define BRIDGESTAN_(MAJOR|MINOR) +(\d+)", text))
    package = numbers(version_of("bridgestan"))[:2]
    if len(parts) < 2 or (int(parts["MAJOR"]), int(parts["MINOR"])) >= package:
        return None
    return (
        f"BridgeStan's sources in {tree} have version {parts['MAJOR']}.{parts['MINOR']}, older "
        f"than its Python package, {'.'.join(map(str, package))}"
    )


def compiler() -> str | None:
    """Return the C++ compiler: the value of CXX, or the first of g++, clang++ and c++ on PATH."""
    named = os.environ.get("CXX")
    if named:  # make uses CXX, so no other compiler matters; it may be "ccache g++"
        words = shlex.split(named, posix=not WINDOWS)
        return named if words and shutil.which(words[0]) else None
    names = (usual_compiler(), "g++", "clang++", "c++")
    return next((name for name in names if shutil.which(name)), None)


def usual_compiler() -> str:
    """Return the compiler that CmdStan's makefile uses by default."""
    return "clang++" if platform.system() == "Darwin" else "g++"


def make() -> str | None:
    """Return the make program: the value of MAKE (as in CmdStanPy), or make or mingw32-make."""
    name = os.environ.get("MAKE") or ("mingw32-make" if WINDOWS else "make")
    return name if shutil.which(name) else None


def without_outer_make() -> dict[str, str]:
    """Return the environment without variables of an outer make: a dry run, a job server."""
    added = ("MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "MAKELEVEL")
    return {name: value for name, value in os.environ.items() if name not in added}


def compiler_problem(system: str = platform.system()) -> str:
    """Explain how to install a missing compiler or make; "" if both exist."""
    missing = [] if compiler() else [os.environ.get("CXX") or "a C++ compiler"]
    missing += [] if make() else [os.environ.get("MAKE") or "make"]
    if not missing:
        return ""
    how = INSTALL_HINTS.get(system, INSTALL_HINTS["Linux"])
    return (
        f"Stan programs are compiled on this computer, but {' and '.join(missing)} could not be "
        f"found. To install compiler and make: {how}. With conda: conda install -c conda-forge "
        "cmdstan, which includes CmdStan."
    )


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, at most three: (2, 36, 0) of "2.36.0-rc1"."""
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Return versions of Python and of the packages on which the results of a run depend."""
    found = {name: version_of(name) or "not installed" for name in packages}
    return {"python": platform.python_version(), **found}


def _cmdstan_path() -> Path | None:
    named = os.environ.get("CMDSTAN")
    return Path(named).absolute() if named else newest_below(cmdstan_home())
