"""The native backend over an installed CmdStan.

CmdStan's stanc turns the program into C++, CmdStan's own make settings say how to compile it, and
`bridge.cpp` gives the class that comes out BridgeStan's C interface. What all programs share (a
precompiled header, the bridge) is compiled once; a program then costs one compilation of itself.
Nothing is written into CmdStan's folder, which may belong to somebody else.
"""

import os
import platform
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from stanadapt import builds, toolchain
from stanadapt.backends import native
from stanadapt.errors import StanadaptError
from stanadapt.program import Program
from stanadapt.status import Tell

BRIDGE = Path(__file__).with_name("bridge.cpp")
# the bridge's functions are all that a library shows: two programs in one process must not
# share Stan's own variables
SHARED = ["-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]
# CmdStan's own precompiled header is for executables and cannot be used for a library
SETTINGS = ["STAN_THREADS=true", "PRECOMPILED_HEADERS=false"]
VARIABLES = (
    "COMPILE.cpp", "LINK.cpp", "LDLIBS", "TBB_TARGETS", "STANCFLAGS", "CXX", "O",
    "SUNDIALS", "CPPFLAGS_SUNDIALS", "CXXFLAGS_SUNDIALS", "CXXFLAGS_OS", "INC_SUNDIALS",
    "SUNDIALS_CVODES", "SUNDIALS_IDAS", "SUNDIALS_KINSOL", "SUNDIALS_NVECSERIAL",
)  # fmt: skip
LINES = 20


class Recipe(NamedTuple):
    """How an installed CmdStan compiles: its folder, version and make variables."""

    root: Path
    version: str
    variables: dict[str, str]

    def words(self, *names: str) -> list[str]:
        """Return the named variables' words, in order."""
        return [word for name in names for word in shlex.split(self.variables[name])]

    @property
    def key(self) -> str:
        """Stands for all that decides how a program is compiled."""
        why = f"the C++ compiler of CmdStan {self.version} in {self.root} could not be run"
        compiler = _start([*self.words("CXX"), "--version"], self.root, why)
        bridge = [p.read_text(encoding="utf-8") for p in sorted(BRIDGE.parent.glob("bridge*.?pp"))]
        told = compiler.stdout.split("\n", 1)[0]
        return builds.key_of(
            self.root, self.version, self.variables, told, bridge, SHARED, platform.machine()
        )


def library(program: Program, tell: Tell) -> native.Library:
    """Compile a program, or find it compiled.

    Raises StanadaptError of stage "syntax" with stanc's words, or "installation" with the
    compiler's last ones.
    """
    recipe = _recipe()
    parts_key = recipe.key
    key = builds.key_of(parts_key, program.hash, program.name)

    def build(folder: Path) -> None:
        header = folder / "program.hpp"
        _translate(recipe, program, header)
        parts = builds.keep("parts", parts_key, lambda where: _build_parts(recipe, where, tell))
        tell(f"Compiling {program.name} with CmdStan {recipe.version}: less than a minute, once")
        _compile(recipe, program.name, header, folder / "program.o", parts.folder)
        objects = [folder / "program.o", parts.folder / "bridge.o"]
        _link(recipe, program.name, objects, folder / f"program{_suffix()}", tell)
        (folder / "program.o").unlink()

    made = builds.keep(program.name, key, build)
    return native.Library(made.folder / f"program{_suffix()}", key, made.seconds)


def load(program: Program, data: str, tell: Tell) -> tuple[Any, str, float]:
    """Return the model, Stan's version and the seconds of compilation; see `native.load`."""
    return native.load(program, data, library, tell)


def prepare(tell: Tell) -> None:
    """Compile what all programs share, so that the first one does not wait for it."""
    recipe = _recipe()
    builds.keep("parts", recipe.key, lambda folder: _build_parts(recipe, folder, tell))


def _suffix() -> str:
    return ".dll" if os.name == "nt" else ".so"


def _recipe() -> Recipe:
    """Ask CmdStan's makefile; it prints any variable."""
    found = toolchain.cmdstan()
    command = [
        toolchain.make() or "make", "-s", "--no-print-directory", "-C", str(found.path), *SETTINGS,
        *(f"print-{name}" for name in VARIABLES),
    ]  # fmt: skip
    # an outer make's own flags (a dry run, a job server) are not meant for this one
    inherited = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")}
    said = _run(command, found.path, f"CmdStan {found.version}'s makefile failed", inherited)
    pairs = (line.split(" = ", 1) for line in said.splitlines() if " = " in line)
    variables = dict.fromkeys(VARIABLES, "") | {k: v for k, v in pairs if k in VARIABLES}
    if not variables["COMPILE.cpp"]:
        raise StanadaptError(
            "installation",
            f"the makefile of CmdStan {found.version} in {found.path} does not say how it "
            f"compiles. Reinstall CmdStan, or take backend='stanli'.\n{said}",
        )
    return Recipe(found.path, found.version, variables)


def _translate(recipe: Recipe, program: Program, header: Path) -> None:
    """Stan to C++."""
    identifier = re.sub(r"\W", "_", program.name, flags=re.ASCII)
    # what the program says when it runs names this file: relative, and called as the program is
    source = header.with_name(f"{identifier}.stan")
    source.write_text(program.code, encoding="utf-8")
    stanc = recipe.root / "bin" / f"stanc{toolchain.EXE}"
    command = [
        str(stanc), *recipe.words("STANCFLAGS"), f"--name={identifier}_model", f"--o={header}",
        source.name,
    ]  # fmt: skip
    why = f"the Stan compiler of CmdStan {recipe.version} failed on {program.name}"
    done = _start(command, source.parent, why)
    if done.returncode < 0:  # a signal, and no words
        _require_success(done, why)
    if done.returncode != 0:
        words = done.stderr + done.stdout
        words = words.replace(f"'{source.name}'", f"'{program.path or program.name}'")
        raise StanadaptError(
            "syntax",
            f"{program.name} is not a program for the Stan compiler of CmdStan "
            f"{recipe.version}.{toolchain.age_of(recipe.version)}",
            words,
        )


def _build_parts(recipe: Recipe, folder: Path, tell: Tell) -> None:
    tell(f"Preparing CmdStan {recipe.version} for native densities: about a minute, once")
    header = folder / "shared.hpp"
    header.write_text("#include <stan/model/model_header.hpp>\n", encoding="utf-8")
    command = [*recipe.words("COMPILE.cpp"), *SHARED, "-w", "-x", "c++-header", str(header)]
    why = f"the C++ compiler failed on the headers of CmdStan {recipe.version}"
    _run([*command, "-o", f"{header}.gch"], recipe.root, why)
    _compile(recipe, "the bridge to Stan", BRIDGE, folder / "bridge.o", folder)


def _compile(recipe: Recipe, what: str, source: Path, target: Path, parts: Path) -> None:
    # compilers take shared.hpp.gch where shared.hpp is named first
    command = [
        *recipe.words("COMPILE.cpp"), *SHARED, "-w", "-include", str(parts / "shared.hpp"),
        "-x", "c++", str(source), "-o", str(target),
    ]  # fmt: skip
    _run(command, recipe.root, f"the C++ compiler failed on {what} (CmdStan {recipe.version})")


def _link(recipe: Recipe, what: str, objects: list[Path], target: Path, tell: Tell) -> None:
    """Link; with the solvers of differential and algebraic equations only where they are used."""
    strict = ["-Wl,-z,defs"] if platform.system() == "Linux" else []  # missing symbols: now

    def command(extra: list[Path]) -> list[str]:
        return [
            *recipe.words("LINK.cpp"), *SHARED, "-shared", *map(str, objects), *map(str, extra),
            *recipe.words("LDLIBS", "TBB_TARGETS"), *strict, "-o", str(target),
        ]  # fmt: skip

    why = f"the library of {what} could not be linked (CmdStan {recipe.version})"
    done = _start(command([]), recipe.root, why)
    if done.returncode != 0 and "undefined" in done.stderr.lower():
        key = builds.key_of("solvers", recipe.key)
        solvers = builds.keep("solvers", key, lambda folder: _build_solvers(recipe, folder, tell))
        done = _start(command(sorted(solvers.folder.glob("*.o"))), recipe.root, why)
    _require_success(done, why)


def _build_solvers(recipe: Recipe, folder: Path, tell: Tell) -> None:
    """SUNDIALS again: CmdStan's own objects are for executables and do not fit a library."""
    tell(f"Preparing the differential-equation solvers of CmdStan {recipe.version}, once")
    names = ("SUNDIALS_CVODES", "SUNDIALS_IDAS", "SUNDIALS_KINSOL", "SUNDIALS_NVECSERIAL")
    override = f"{recipe.variables['SUNDIALS']}/include/stan_sundials_printf_override.hpp"
    flags = [
        *recipe.words("CXX", "CPPFLAGS_SUNDIALS", "CXXFLAGS_SUNDIALS", "CXXFLAGS_OS"),
        f"-O{recipe.variables['O']}", *recipe.words("INC_SUNDIALS"), *SHARED, "-w", "-x", "c",
        "-include", override, "-c",
    ]  # fmt: skip

    def compile_one(entry: tuple[int, str]) -> None:
        number, made = entry
        source = re.sub(r"\.o$", ".c", made)
        _run([*flags, source, "-o", str(folder / f"{number}.o")], recipe.root, f"{source} failed")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, enumerate(dict.fromkeys(recipe.words(*names)))))


def _run(command: list[str], folder: Path, why: str, environment: dict | None = None) -> str:
    """Run a command; its output is shown only where it failed, under the sentence `why`."""
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
        elsewhere = f"{error}. Look at CmdStan's make/local, or take backend='stanli'."
        missing = toolchain.compiler_problem() or elsewhere
        raise StanadaptError("installation", f"{why}: {missing}") from None


def _require_success(done: subprocess.CompletedProcess, why: str) -> None:
    if done.returncode != 0:
        words = "\n".join((done.stdout + done.stderr).strip().splitlines()[-LINES:])
        message = f"{why}. {_advice(done.returncode, words)}\n{words}"
        raise StanadaptError("installation", message.rstrip())


def _advice(code: int, words: str) -> str:
    if "No space left" in words:
        return "The disk is full: make room, or set STANADAPT_CACHE to a folder elsewhere."
    if code < 0 or "Killed" in words:
        return "It was killed: a Stan program can take 2 GB of memory to compile. Try again."
    return (
        "`stanadapt doctor` says what is installed; `stanadapt install-cmdstan` installs CmdStan "
        "anew. Without a compiler there is backend='stanli'."
    )
