"""The native backend that uses an installed CmdStan.

CmdStan's stanc translates the program into C++, CmdStan's make settings determine how to compile
it, and `bridge.cpp` gives the resulting class BridgeStan's C interface. The parts common to all
programs (a precompiled header and the bridge) are compiled once; each program then needs a single
compilation. Nothing is written into CmdStan's folder, which may belong to another user.
"""

import os
import platform
import re
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from stanadapt.engine.console import Report
from stanadapt.engine.plan import usable_cores
from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import build_cache, toolchain
from stanadapt.targets.stan.backends.native import Compilation
from stanadapt.targets.stan.backends.refusals import too_old
from stanadapt.targets.stan.program import Program

BRIDGE = Path(__file__).with_name("bridge.cpp")
# a library exports the bridge's functions only, because two programs in one process must not share
# Stan's global variables
SHARED_FLAGS = ["-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]
# CmdStan's precompiled header is for executables and does not work for a library
SETTINGS = ["STAN_THREADS=true", "PRECOMPILED_HEADERS=false"]
VARIABLES = (
    "COMPILE.cpp", "LINK.cpp", "LDLIBS", "TBB_TARGETS", "STANCFLAGS", "CXX", "O",
    "SUNDIALS", "CPPFLAGS_SUNDIALS", "CXXFLAGS_SUNDIALS", "CXXFLAGS_OS", "INC_SUNDIALS",
    "SUNDIALS_CVODES", "SUNDIALS_IDAS", "SUNDIALS_KINSOL", "SUNDIALS_NVECSERIAL",
)  # fmt: skip
LINES = 20
SUFFIX = ".dll" if os.name == "nt" else ".so"


class Recipe(NamedTuple):
    """How an installed CmdStan compiles."""

    root: Path
    version: str
    variables: dict[str, str]  # of make

    def words(self, *names: str) -> list[str]:
        """Return the words of the named variables, in order."""
        return [word for name in names for word in shlex.split(self.variables[name])]

    @property
    def key(self) -> str:
        """Key of everything that determines how a program is compiled."""
        compiler = tuple(self.words("CXX"))
        named = compiler[0] if compiler else ""
        found = shutil.which(named) or shutil.which(self.root / named)
        changed = Path(found).stat().st_mtime_ns if found else 0
        bridge = [p.read_text(encoding="utf-8") for p in sorted(BRIDGE.parent.glob("bridge*.?pp"))]
        return build_cache.make_key(
            self.root, self.version, self.variables,
            _version_of(compiler, self.root, self.version, changed), bridge, SHARED_FLAGS,
            platform.machine(),
        )  # fmt: skip


def compilation(program: Program, report: Report) -> Compilation:
    """Return how a program is compiled.

    The compilation raises StanadaptError, stage "syntax" with stanc's message, or "installation"
    with the compiler's last lines.
    """
    recipe = _recipe()
    key, file = build_cache.make_key(recipe.key, program.hash, program.name), f"program{SUFFIX}"

    def build(folder: Path) -> None:
        header, compiled = folder / "program.hpp", folder / "program.o"
        _translate(recipe, program, header)
        parts = _parts(recipe, report)
        report(f"Compiling {program.name} with CmdStan {recipe.version} (once, under a minute)")
        _compile(recipe, program.name, header, compiled, parts)
        _link(recipe, program.name, [compiled, parts / "bridge.o"], folder / file, report)
        compiled.unlink()

    return Compilation(key, file, build)


def prepare(report: Report) -> None:
    """Compile in advance the parts that all programs share."""
    _parts(_recipe(), report)


def _recipe() -> Recipe:
    """Query CmdStan's makefile, once in a process for each of its versions and environment."""
    installed = toolchain.require_cmdstan()
    files = [installed.path / "makefile", *installed.path.glob("make/*")]
    changed = tuple((file, file.stat().st_mtime_ns) for file in sorted(files) if file.exists())
    return _query(installed, changed, tuple(sorted(os.environ.items())))


@lru_cache(maxsize=8)
def _query(installed: toolchain.CmdStan, files: tuple, environment: tuple) -> Recipe:
    """Let a makefile print its variables."""
    command = [
        toolchain.make() or "make", "-s", "--no-print-directory", "-C", str(installed.path),
        *SETTINGS, *(f"print-{name}" for name in VARIABLES),
    ]  # fmt: skip
    why = f"CmdStan {installed.version}'s makefile failed"
    output = _run(command, installed.path, why, toolchain.without_outer_make())
    pairs = (line.split(" = ", 1) for line in output.splitlines() if " = " in line)
    variables = dict.fromkeys(VARIABLES, "") | {k: v for k, v in pairs if k in VARIABLES}
    if not variables["COMPILE.cpp"]:
        raise StanadaptError(
            "compilation_failed",
            f"the makefile of CmdStan {installed.version} in {installed.path} does not define how "
            f"programs are compiled. Reinstall CmdStan, or use backend='stanli'.\n{output}",
        )
    return Recipe(installed.path, installed.version, variables)


@lru_cache(maxsize=8)
def _version_of(compiler: tuple[str, ...], root: Path, version: str, changed: int) -> str:
    """Ask a compiler for its version, again if its file has changed."""
    why = f"the C++ compiler of CmdStan {version} in {root} could not be run"
    return _start([*compiler, "--version"], root, why).stdout.split("\n", 1)[0]


def _translate(recipe: Recipe, program: Program, header: Path) -> None:
    identifier = re.sub(r"\W", "_", program.name, flags=re.ASCII)
    # run-time messages contain this file name, so it is relative and named after the program
    source = header.with_name(f"{identifier}.stan")
    source.write_text(program.code, encoding="utf-8")
    stanc = recipe.root / "bin" / f"stanc{toolchain.EXE}"
    command = [
        str(stanc), *recipe.words("STANCFLAGS"), f"--name={identifier}_model", f"--o={header}",
        source.name,
    ]  # fmt: skip
    why = f"the Stan compiler of CmdStan {recipe.version} failed on {program.name}"
    done = _start(command, source.parent, why)
    if done.returncode < 0:  # killed by a signal, no message
        _require_success(done, why)
    if done.returncode != 0:
        message = done.stderr + done.stdout
        message = message.replace(f"'{source.name}'", f"'{program.path or program.name}'")
        raise StanadaptError(
            "syntax_error",
            f"the Stan compiler of CmdStan {recipe.version} does not accept {program.name}."
            f"{too_old(recipe.version, program)}",
            message,
        )


def _parts(recipe: Recipe, report: Report) -> Path:
    """Return the folder of the parts that all programs share, which is cached."""

    def build(folder: Path) -> None:
        _build_parts(recipe, folder, report)

    return build_cache.find_or_build("parts", recipe.key, build).folder


def _build_parts(recipe: Recipe, folder: Path, report: Report) -> None:
    report(f"Preparing CmdStan {recipe.version} for native densities (once, about a minute)")
    header = folder / "shared.hpp"
    header.write_text("#include <stan/model/model_header.hpp>\n", encoding="utf-8")
    command = [*recipe.words("COMPILE.cpp"), *SHARED_FLAGS, "-w", "-x", "c++-header", str(header)]
    why = f"the C++ compiler failed on the headers of CmdStan {recipe.version}"
    _run([*command, "-o", f"{header}.gch"], recipe.root, why)
    _compile(recipe, "the bridge to Stan", BRIDGE, folder / "bridge.o", folder)


def _compile(recipe: Recipe, name: str, source: Path, target: Path, parts: Path) -> None:
    # compilers use shared.hpp.gch if shared.hpp is included first
    command = [
        *recipe.words("COMPILE.cpp"), *SHARED_FLAGS, "-w", "-include", str(parts / "shared.hpp"),
        "-x", "c++", str(source), "-o", str(target),
    ]  # fmt: skip
    _run(command, recipe.root, f"the C++ compiler failed on {name} (CmdStan {recipe.version})")


def _link(recipe: Recipe, name: str, objects: list[Path], target: Path, report: Report) -> None:
    """Link; include the solvers of differential and algebraic equations only if needed."""
    strict = ["-Wl,-z,defs"] if platform.system() == "Linux" else []  # report missing symbols now

    def command(extra: list[Path]) -> list[str]:
        return [
            *recipe.words("LINK.cpp"), *SHARED_FLAGS, "-shared", *map(str, objects),
            *map(str, extra), *recipe.words("LDLIBS", "TBB_TARGETS"), *strict, "-o", str(target),
        ]  # fmt: skip

    why = f"the library of {name} could not be linked (CmdStan {recipe.version})"
    done = _start(command([]), recipe.root, why)
    if done.returncode != 0 and "undefined" in done.stderr.lower():
        key = build_cache.make_key("solvers", recipe.key)
        solvers = build_cache.find_or_build(
            "solvers", key, lambda folder: _build_solvers(recipe, folder, report)
        )
        done = _start(command(sorted(solvers.folder.glob("*.o"))), recipe.root, why)
    _require_success(done, why)


def _build_solvers(recipe: Recipe, folder: Path, report: Report) -> None:
    """Recompile SUNDIALS, because CmdStan's objects are for executables, not for a library."""
    report(f"Preparing the differential-equation solvers of CmdStan {recipe.version} (once)")
    names = ("SUNDIALS_CVODES", "SUNDIALS_IDAS", "SUNDIALS_KINSOL", "SUNDIALS_NVECSERIAL")
    override = f"{recipe.variables['SUNDIALS']}/include/stan_sundials_printf_override.hpp"
    flags = [
        *recipe.words("CXX", "CPPFLAGS_SUNDIALS", "CXXFLAGS_SUNDIALS", "CXXFLAGS_OS"),
        f"-O{recipe.variables['O']}", *recipe.words("INC_SUNDIALS"), *SHARED_FLAGS, "-w", "-x", "c",
        "-include", override, "-c",
    ]  # fmt: skip

    def compile_one(entry: tuple[int, str]) -> None:
        number, target = entry
        source = re.sub(r"\.o$", ".c", target)
        _run([*flags, source, "-o", str(folder / f"{number}.o")], recipe.root, f"{source} failed")

    with ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(compile_one, enumerate(dict.fromkeys(recipe.words(*names)))))


def _run(command: list[str], folder: Path, why: str, environment: dict | None = None) -> str:
    """Run a command and return its output; if it fails, the error is `why` and the output."""
    done = _start(command, folder, why, environment)
    _require_success(done, why)
    return done.stdout


def _start(
    command: list[str], folder: Path, why: str, environment: dict | None = None
) -> subprocess.CompletedProcess:
    try:
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False,
            env=environment,
        )  # fmt: skip
    except OSError as error:
        other = f"{error}. Check CmdStan's make/local, or use backend='stanli'."
        problem = toolchain.compiler_problem() or other
        raise StanadaptError("compilation_failed", f"{why}: {problem}") from None


def _require_success(done: subprocess.CompletedProcess, why: str) -> None:
    if done.returncode != 0:
        output = "\n".join((done.stdout + done.stderr).strip().splitlines()[-LINES:])
        message = f"{why}. {_advice(done.returncode, output)}\n{output}"
        raise StanadaptError("compilation_failed", message.rstrip())


def _advice(code: int, output: str) -> str:
    if "No space left" in output:
        return "The disk is full: free some space, or set STANADAPT_CACHE to another folder."
    if code < 0 or "Killed" in output:
        return "It was killed: compiling a Stan program can take 2 GB of memory. Try again."
    return (
        "`stanadapt doctor` checks the installation; `stanadapt install-cmdstan` reinstalls "
        "CmdStan; backend='stanli' needs no compiler."
    )
