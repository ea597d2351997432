"""Stan's NUTS in CmdStan, run through CmdStanPy."""

import contextlib
import logging
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stanadapt.engine.plan import Plan
from stanadapt.errors import Message, StanadaptError
from stanadapt.results.cmdstan_header import STATISTICS
from stanadapt.runs.stan_nuts.engine import NutsRun, NutsSettings, counted, dotted
from stanadapt.targets.stan import build_cache, toolchain
from stanadapt.targets.stan.backends.refusals import too_old
from stanadapt.targets.stan.build_cache import kill_children_on_ctrl_c
from stanadapt.targets.stan.program import Program
from stanadapt.targets.target import Target

DIGITS = 17  # every bit of a draw, since its density is compared with ours
FINISHED = b"Elapsed Time"
LINES = 12  # of console output that an error quotes
SEEDS = 2**31
SPECIAL = re.compile(r"[\s~]")  # CmdStanPy compiles a program at such a path in a temporary folder


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence CmdStanPy, which logs each step; failures are reported as errors."""
    logger = logging.getLogger("cmdstanpy")
    saved, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = saved


def executable(program: Program, status: Any) -> tuple[Path, float]:
    """Compile a program unless it is in the cache; return the executable and the seconds taken."""
    with _quiet():  # in a notebook, its progress bars ask for widgets
        from cmdstanpy import CmdStanModel  # 0.4 s to import

    cmdstan = toolchain.require_cmdstan()
    suffix = ".exe" if os.name == "nt" else ""

    def build(folder: Path) -> None:
        status(f"Compiling {program.name} with CmdStan {cmdstan.version}: about a minute, once")
        source = folder / "model.stan"
        source.write_text(program.code, encoding="utf-8")
        try:
            with _quiet():
                CmdStanModel(stan_file=str(source))
        except (ValueError, RuntimeError) as error:
            if all(map(SPECIAL.search, (str(source), tempfile.gettempdir()))):
                raise StanadaptError(
                    "compilation_failed",
                    f"CmdStan cannot compile {program.name} in a path with spaces, neither in the "
                    f"cache, {folder.parent}, nor in {tempfile.gettempdir()}. Set the environment "
                    "variable STANADAPT_CACHE or TMPDIR to a folder without spaces in its path.",
                ) from None
            message = str(error).replace(str(source), str(program.path or program.name))
            rejected = re.search(r"(?i)syntax error|semantic error", message)
            raise StanadaptError(
                "syntax_error" if rejected else "compilation_failed",
                f"CmdStan {cmdstan.version} cannot compile {program.name}."
                f"{too_old(cmdstan.version, program) if rejected else ''}",
                "\n".join(message.splitlines()[-40:]),
            ) from None

    key = build_cache.make_key("executable", cmdstan.path, cmdstan.version, program.hash)
    built = build_cache.find_or_build(f"nuts-{program.name}", key, build)
    return built.folder / f"model{suffix}", built.seconds


def run(
    target: Target, plan: Plan, settings: NutsSettings, positions: list[np.ndarray], status: Any
) -> NutsRun:
    """Sample from the given unconstrained positions; see `NutsRun`."""
    from cmdstanpy import CmdStanModel

    program, compile_seconds = executable(target.program, status)
    # CmdStanPy refuses adapt_delta if there is no warm-up
    accepts: dict[str, Any] = {"adapt_delta": settings.adapt_delta}
    adaptation = accepts if plan.iter_warmup else {"adapt_engaged": False}
    folder = Path(tempfile.mkdtemp(prefix="stanadapt-nuts-"))
    try:
        data = folder / "data.json"
        target.checked.write(data)
        text = f"Sampling {target.name} with CmdStan's NUTS"
        rows = _rows_written(folder)
        progress = counted(status, text, plan, lambda: plan.thin * rows())
        with _quiet(), kill_children_on_ctrl_c(), progress:
            model = CmdStanModel(exe_file=str(program))
            fit, remarks = _sample(
                model, target, folder, data=str(data), chains=plan.chains,
                parallel_chains=plan.parallel_chains, thin=plan.thin,
                seed=plan.seed % SEEDS,  # 2.27 reads larger ones as negative and stops
                inits=[target.constrain(position) for position in positions],
                iter_warmup=plan.iter_warmup, iter_sampling=plan.iter_sampling,
                save_warmup=True, show_progress=False, max_treedepth=settings.max_treedepth,
                sig_figs=DIGITS, output_dir=str(folder), metric=settings.metric, **adaptation,
            )  # fmt: skip
            draws = fit.draws(inc_warmup=True).transpose(1, 0, 2)
            outcome = _outcome(fit, draws, compile_seconds, remarks)
        if settings.metric == "unit_e":
            ones = np.ones((len(outcome.draws), target.dim))
            return outcome._replace(inverse_metric=ones)
        return outcome
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _rows_written(folder: Path) -> Callable[[], int]:
    """Return a function that counts the draws in growing CSV files, and reads only what is new.

    A line is a draw, unless it is a comment or the line of titles.
    """
    read: dict[Path, int] = {}
    rows = 0

    def count() -> int:
        nonlocal rows
        for path in folder.glob("*.csv"):
            with path.open("rb") as file:
                file.seek(read.get(path, 0))
                new = file.read()
            rows += new.count(b"\n") - new.count(b"#") - new.count(b"lp__")
            read[path] = read.get(path, 0) + len(new)
        return rows

    return count


def _sample(model: Any, target: Target, folder: Path, **arguments: Any) -> tuple[Any, tuple]:
    """Sample, and keep the complete chains if others fail; return the fit and messages."""
    import cmdstanpy

    try:
        return model.sample(**arguments), ()
    except (RuntimeError, ValueError) as error:
        files = [p for p in sorted(folder.glob("*.csv")) if FINISHED in p.read_bytes()[-2000:]]
        message = _console(folder) or str(error)
        chains = arguments["chains"]
        if not files:
            raise StanadaptError(
                "nuts_failed", f"all {chains} chains of CmdStan failed on {target.name}.", message
            ) from None
    first = next(iter(message.splitlines()), "no reason given")
    note = Message(
        "nuts_chains_failed",
        f"{chains - len(files)} of {chains} chains of CmdStan failed and are not in the result. "
        f"Stan's message: {first}",
    )
    return cmdstanpy.from_csv([str(p) for p in files], method="sample"), (note,)


def _console(folder: Path) -> str:
    """Return the last console lines of a failed chain, without those on progress."""
    for path in sorted(folder.glob("*.txt")):
        lines = path.read_text(errors="replace").splitlines()
        messages = [x for x in lines if x.strip() and not re.match(r"\s*(Iteration:|\w+ = )", x)]
        if messages and FINISHED.decode() not in "\n".join(lines):
            return "\n".join(messages[-LINES:])
    return ""


def _outcome(fit: Any, draws: np.ndarray, compile_seconds: float, remarks: tuple) -> NutsRun:
    """Pack CmdStan's output; its statistics are the columns with names that end in "__"."""
    names = dotted(fit.column_names)
    variables = [i for i, name in enumerate(names) if not name.endswith("__")]
    times = fit.time
    return NutsRun(
        column_names=[names[i] for i in variables],
        draws=draws[..., variables],
        statistics=draws[..., [names.index(name) for name in STATISTICS]],
        warmup_seconds=[chain["warmup"] for chain in times],
        sampling_seconds=[chain["sampling"] for chain in times],
        compile_seconds=compile_seconds,
        engine=f"cmdstan {toolchain.require_cmdstan().version}",
        remarks=remarks,
        inverse_metric=fit.metric,
    )
