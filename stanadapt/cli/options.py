"""Options that several commands share, and functions that convert their values."""

from pathlib import Path
from typing import Annotated, Any

import typer

from stanadapt.errors import StanadaptError
from stanadapt.runs.choose_sampler import names_of_settings
from stanadapt.samplers.initial_values import PATHFINDER
from stanadapt.targets.posteriordb import PosteriorDatabase
from stanadapt.targets.stan import bundled
from stanadapt.targets.target import Target

Model = Annotated[
    str, typer.Argument(help="A .stan file, or the name of a bundled program (stanadapt models).")
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data", "-d", help="A file (JSON or R's dump format), or the name of a bundled data set."
    ),
]
Include = Annotated[
    list[Path] | None, typer.Option("--include", help="Folder for #include; repeatable.")
]
Backend = Annotated[
    str,
    typer.Option(help="How densities are computed: auto, or a name that `stanadapt doctor` lists."),
]
Unsafe = Annotated[
    bool,
    typer.Option(
        "--unsafe",
        help="Skip the embedded backend's checks of the density, which may then be wrong.",
    ),
]
Noise = Annotated[
    list[str] | None,
    typer.Option(help="Noise parameter of an estimated density (rwm, am, kameleon); repeatable."),
]
Rho = Annotated[float, typer.Option(help="Correlation of proposed and current noise, in [0, 1).")]
LabelsFile = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        help="JSON file of labels for ArviZ: dims, coords, posterior_predictive, log_likelihood.",
    ),
]
Exclude = Annotated[
    str | None,
    typer.Option(
        help="Transformed parameters and generated quantities to leave out, separated by commas."
    ),
]
Posteriordb = Annotated[
    Path | None,
    typer.Option(
        "--posteriordb",
        help="Folder of a posteriordb; MODEL is then one of its posteriors.",
    ),
]
Float32 = Annotated[
    bool,
    typer.Option("--float32", help="Write draws in single precision if rounding is negligible."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="The file to write, or the folder for cmdstan and zarr; default: fit.nc, fit or "
        "fit.zarr.",
    ),
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        help="netcdf: an ArviZ file; cmdstan: a folder with one CSV file per chain, as CmdStan "
        "writes them; or zarr.",
    ),
]
Chains = Annotated[int, typer.Option(help="Number of chains.")]
Parallel = Annotated[
    int | None, typer.Option(help="Number of chains that run at once; does not change the draws.")
]
Threads = Annotated[
    int, typer.Option(help="Threads that share the moves of a chain; does not change the draws.")
]
Warmup = Annotated[
    int | None, typer.Option(help="Warm-up iterations per chain; default: chosen by the sampler.")
]
Draws = Annotated[
    int | None, typer.Option(help="Sampling iterations per chain; default: chosen by the sampler.")
]
UntilEss = Annotated[
    float | None,
    typer.Option(help="Sample until every parameter has this ESS and R-hat is below 1.01."),
]
MaxMinutes = Annotated[
    float | None, typer.Option(help="Stop after this many minutes, without compilation.")
]
Thin = Annotated[int, typer.Option(help="Keep only every THIN-th iteration.")]
Seed = Annotated[
    int | None, typer.Option(help="Random seed; default: a random one, which the result records.")
]
Repeats = Annotated[
    int | None,
    typer.Option(
        help="Number of runs of each sampler, with different seeds; prints medians and intervals. "
        "A second call of the same command adds to the repeats in --out."
    ),
]
MoreTargets = Annotated[
    list[str] | None,
    typer.Option(
        "--target", help="With --repeats: another target, MODEL or MODEL:DATA; repeatable."
    ),
]
Inits = Annotated[
    str | None,
    typer.Option(
        help="Starting values: a radius, pathfinder, or a JSON file of constrained values."
    ),
]
Standardize = Annotated[
    bool | None,
    typer.Option(help="Learn location and scales in a pre-run; default: chosen by the sampler."),
]
Straighten = Annotated[
    bool,
    typer.Option(
        "--straighten",
        help="In the pre-run, also learn a map that makes funnels and curved valleys nearly "
        "Gaussian; whitened_hmc does this by default.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Choices = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of the sampler, NAME=VALUE; repeatable."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
Variables = Annotated[
    str | None,
    typer.Option(
        "--vars", help="Variables to diagnose, separated by commas; default: all parameters."
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        help="seconds or gradients: also show effective sample sizes at equal cost in these."
    ),
]
SettingsBySampler = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="A setting: NAME=VALUE for all samplers that have it, SAMPLER.NAME=VALUE for one; "
        "repeatable.",
    ),
]


def target_options(
    include: list[Path] | None, backend: str, unsafe: bool, noise: list[str] | None, rho: float,
    labels: Path | None, exclude: str | None, quiet: bool,
) -> dict[str, Any]:  # fmt: skip
    """Return options of a target as arguments of `Target`."""
    return {
        "include_paths": include or (), "backend": backend, "unsafe": unsafe, "noise": noise or (),
        "rho": rho, "labels": labels, "exclude": read_names(exclude) or (),
        "show_progress": not quiet,
    }  # fmt: skip


def make_target(
    model: str, data: str | None, posteriordb: Path | None = None, **options: Any
) -> Any:
    """Make a target from files if they exist, otherwise from the bundled program of that name.

    If posteriordb is a folder, the model is the name of a posterior in it.
    """
    if posteriordb is not None:
        if data is not None:
            raise StanadaptError(
                "options_conflict",
                "--data cannot be combined with --posteriordb, which has data of its posteriors: "
                "leave out one of the two.",
            )
        return PosteriorDatabase(posteriordb).target(model, **options)
    program: Any = Path(model)
    source: Any = Path(data) if data else None
    if not program.is_file() and program.suffix != ".stan":
        if source is not None and source.is_file():
            program = bundled.require(model).path
        else:
            program, source = bundled.find(model, data)
    return Target(program, source, **options)


def read_inits(text: str | None) -> Any:
    """Return starting values as `sample` takes them: a radius, a method's name or a path."""
    if text is None or text == PATHFINDER:
        return text
    try:
        return float(text)
    except ValueError:
        return Path(text)


def read_settings(pairs: list[str] | None) -> dict[str, str]:
    """Return the settings in texts of the form NAME=VALUE."""
    for pair in pairs or []:
        if "=" not in pair:
            raise StanadaptError("setting_syntax", f"--set expects NAME=VALUE, got {pair!r}.")
    return dict(pair.split("=", 1) for pair in pairs or [])


def read_names(text: str | None) -> list[str] | None:
    """Return names that are separated by commas; None if the option was not given."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def settings_by_sampler(pairs: list[str] | None, samplers: list[str]) -> dict[str, dict[str, str]]:
    """Return the settings of each sampler: those for all samplers that have them, and its own.

    Raises
    ------
    StanadaptError
        Stage "settings", if a setting names another sampler, or if none of these has it.

    """
    settings: dict[str, dict[str, str]] = {name: {} for name in samplers}
    for text, value in read_settings(pairs).items():
        owner, _, name = text.rpartition(".")
        if owner and owner not in settings:
            listed = ", ".join(samplers)
            raise StanadaptError(
                "setting_unused",
                f"--set {text}: {owner} is not among the samplers to compare ({listed}).",
            )
        takers = [owner] if owner else [s for s in samplers if name in names_of_settings(s)]
        if not takers:
            listed = ", ".join(samplers)
            raise StanadaptError(
                "setting_unused", f"--set {text}: none of the samplers ({listed}) has this setting."
            )
        for sampler in takers:
            settings[sampler][name] = value
    return settings
