"""Commands that judge: `diagnose`, `table`, `report`, `loo`, `modes`, and `sbc` and `advise`."""

import json
from pathlib import Path
from typing import Any

import typer

from stanadapt.cli import options
from stanadapt.cli.options import options_of
from stanadapt.cli.signature import Given, Option, command
from stanadapt.cli.terminal import load_all, require_writable, typed
from stanadapt.diagnostics.compare import compare
from stanadapt.diagnostics.leave_one_out import COMPARED, leave_one_out
from stanadapt.diagnostics.modes import modes as find_modes
from stanadapt.errors import StanadaptError, codes_of
from stanadapt.results import write_text
from stanadapt.runs.load import load
from stanadapt.studies.advise.advise import advise as try_samplers
from stanadapt.studies.advise.advise import require_trials
from stanadapt.studies.calibration import sbc as calibration
from stanadapt.studies.calibration.ranks import NOT_CALIBRATED, require_picture
from stanadapt.studies.diagnose import diagnose as judge_fit
from stanadapt.studies.report.report import check_report
from stanadapt.studies.report.report import report as write_report
from stanadapt.targets.stan.program import read
from stanadapt.targets.target import Target


@command(target=options_of(Target, "backend"))
def diagnose(
    fit: Path,
    *,
    as_json: bool = False,
    model: str | None = None,
    data: str | None = None,
    target: Given,
) -> None:
    if model is None and data is not None:
        raise StanadaptError(
            "options_conflict", "--data belongs to the program of the fit: add --model."
        )
    program = None if model is None else options.make_target(model, data, **target)
    found = judge_fit(load(fit), program)
    if not as_json:
        print(found)
        return
    report = {
        "fit": str(fit), "verdict": found.verdict,
        "reasons": _with_codes(found.reasons), "notes": _with_codes(found.notes),
    }  # fmt: skip
    print(json.dumps(report, indent=2))


def _with_codes(messages: list[Any]) -> list[dict[str, str]]:
    codes = codes_of(messages)
    return [{"code": c, "text": text} for c, text in zip(codes, messages, strict=True)]


TOO_LARGE = (
    "Observations whose Pareto k is above the limit change the posterior much, and elpd may be too "
    "large: fit again without each of them, or use a model in which they are less influential."
)
BASELINE = Option("Name of the fit to compare with: its file name without .nc.")


@command(measured=options_of(compare, "baseline", "var_names", "budget", baseline=BASELINE))
def table(
    fits: list[Path], *, measured: Given, out: Path | None = None, force: bool = False
) -> None:
    if out is not None:
        require_writable([out], force)
    compared = compare(load_all(fits), **measured)
    print(compared)
    if out is not None:
        compared.to_csv(out, index_label="fit")
        print(f"table: {out}")


@command(shown=options_of(write_report, "baseline", baseline=BASELINE))
def report(
    fits: list[Path],
    *,
    out: Path = Path("report.html"),
    shown: Given,
    force: bool = False,
) -> None:
    (path,) = require_writable([check_report(out)], force)
    print(f"Report: {write_report(load_all(fits), path, command=typed(), **shown)}")


@command()
def loo(
    fits: list[Path],
    *,
    variable: str | None = None,
) -> None:
    found = leave_one_out(load_all(fits), variable)
    for name, one in found.items():
        print(f"{name}\n{one}".rstrip(), end="\n\n")
    if any(one["warning"] for name, one in found.items() if name != COMPARED):
        print(TOO_LARGE)


@command(target=options.PLAIN_TARGET)
def modes(
    fit: Path,
    *,
    model: str,
    data: str | None = None,
    out: Path | None = None,
    target: Given,
    force: bool = False,
) -> None:
    (path,) = require_writable([out], force) if out is not None else (None,)
    table = find_modes(load(fit), options.make_target(model, data, **target))
    print(table)
    if path is not None:
        table.scalar_columns().to_csv(path)
        print(f"table: {path}")


@command(
    plan=options_of(
        calibration.sbc, "sampler", "simulations", "seed", "run", "backend", "show_progress"
    )
)
def sbc(
    model: str,
    *,
    generator: Path,
    data: str | None = None,
    plan: Given,
    chains: int = calibration.OPTIONS["chains"],
    iter_sampling: int = calibration.OPTIONS["iter_sampling"],
    out: Path | None = None,
    settings: list[str] | None = None,
    sampler_file: options.SamplerFile = None,
    force: bool = False,
) -> None:
    path = None
    if out is not None:
        (path,) = require_writable([require_picture(out)], force)
    given = {"chains": chains, "iter_sampling": iter_sampling, **options.read_settings(settings)}
    ranks = calibration.sbc(read(model), read(generator), data, **plan, **given)
    print(ranks)
    if path is not None:
        ranks.plot(path)
        print(f"picture: {path}")
    if ranks.verdict == NOT_CALIBRATED:
        raise typer.Exit(1)


@command(plan=options_of(try_samplers, leave_out=("target",)), target=options.NOISY_TARGET)
def advise(
    model: str,
    *,
    data: str | None = None,
    plan: Given,
    out: Path | None = None,
    target: Given,
    posteriordb: Path | None = None,
    force: bool = False,
) -> None:
    (path,) = require_writable([out], force) if out is not None else (None,)
    require_trials(**plan)
    advice = try_samplers(options.make_target(model, data, posteriordb, **target), **plan)
    print(advice)
    if path is not None:
        write_text(path, advice.to_json() + "\n")
        print(f"advice: {path}")
    print(advice.command(model, data, posteriordb))
