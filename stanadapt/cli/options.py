"""Options that several commands share, and what they are turned into."""

from pathlib import Path
from typing import Annotated, Any

import typer

from stanadapt.errors import StanadaptError
from stanadapt.runs.choose_sampler import names_of_settings
from stanadapt.samplers.variational.methods import PATHFINDER
from stanadapt.targets.posteriordb import PosteriorDatabase
from stanadapt.targets.stan import bundled
from stanadapt.targets.target import Target

Model = Annotated[
    str, typer.Argument(help="A .stan file, or the name of a bundled program (stanadapt models).")
]
Data = Annotated[
    str | None,
    typer.Option("--data", "-d", help="A JSON file, or the name of a bundled data set."),
]
Include = Annotated[
    list[Path] | None, typer.Option("--include", help="Folder for #include; may be repeated.")
]
Backend = Annotated[
    str, typer.Option(help="How densities are computed: auto, or one listed by `stanadapt doctor`.")
]
Unsafe = Annotated[
    bool,
    typer.Option("--unsafe", help="Skip the embedded backend's checks of the program's density."),
]
Noise = Annotated[
    list[str] | None,
    typer.Option(help="Noise parameter of an estimated density (rwm, am, kameleon); repeatable."),
]
Rho = Annotated[float, typer.Option(help="Correlation of proposed with current noise, in [0, 1).")]
LabelsFile = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        "--dims",
        help="JSON file: dims, coords, posterior_predictive, log_likelihood, for ArviZ; or dims.",
    ),
]
Exclude = Annotated[
    str | None,
    typer.Option(help="Computed quantities that are not kept, separated by commas."),
]
Posteriordb = Annotated[
    Path | None,
    typer.Option(
        "--posteriordb", help="Copy of posteriordb: MODEL is then the name of a posterior there."
    ),
]
Float32 = Annotated[
    bool,
    typer.Option(
        "--float32", help="Write draws with four bytes, where their spread bears the rounding."
    ),
]
Chains = Annotated[int, typer.Option(help="Number of chains.")]
Parallel = Annotated[
    int | None, typer.Option(help="Chains run at once; the draws do not depend on it.")
]
Threads = Annotated[
    int, typer.Option(help="Threads per chain, to share its moves; the draws do not depend on it.")
]
Warmup = Annotated[
    int | None, typer.Option(help="Warm-up iterations per chain; default: the sampler's.")
]
Draws = Annotated[
    int | None, typer.Option(help="Sampling iterations per chain; default: the sampler's.")
]
UntilEss = Annotated[
    float | None,
    typer.Option(help="Go on until every parameter has this ESS, and R-hat is below 1.01."),
]
MaxMinutes = Annotated[float | None, typer.Option(help="Stop after this time.")]
Thin = Annotated[int, typer.Option(help="Keep every thin-th iteration.")]
Seed = Annotated[
    int | None, typer.Option(help="Same seed, same draws; default: random, and recorded.")
]
Repeats = Annotated[
    int | None,
    typer.Option(
        help="Run each sampler so often, with other seeds; show medians and intervals. The same "
        "command goes on with what is in --out."
    ),
]
MoreTargets = Annotated[
    list[str] | None,
    typer.Option(
        "--target", help="With --repeats, another target: MODEL, or MODEL:DATA; repeatable."
    ),
]
Inits = Annotated[
    str | None,
    typer.Option(
        help="Where chains start: a radius, pathfinder, or a JSON file of constrained values."
    ),
]
Standardize = Annotated[
    bool | None, typer.Option(help="Standardize by a pre-run; default: as suits the sampler.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not show progress.")]
Choices = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of the sampler, NAME=VALUE; may be repeated."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]
Variables = Annotated[
    str | None,
    typer.Option("--vars", help="Variables that count, separated by commas; default: parameters."),
]
Budget = Annotated[
    str | None,
    typer.Option(help="seconds or gradients: show effective sample sizes at equal cost too."),
]
SettingsBySampler = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="NAME=VALUE for samplers that have it, or SAMPLER.NAME=VALUE; repeatable."
    ),
]


def target_options(
    include: list[Path] | None, backend: str, unsafe: bool, noise: list[str] | None, rho: float,
    labels: Path | None, exclude: str | None, quiet: bool,
) -> dict[str, Any]:  # fmt: skip
    """Options of a target, as `Target` takes them."""
    return {
        "include_paths": include or (), "backend": backend, "unsafe": unsafe, "noise": noise or (),
        "rho": rho, "labels": labels, "exclude": read_names(exclude) or (),
        "show_progress": not quiet,
    }  # fmt: skip


def make_target(
    model: str, data: str | None, posteriordb: Path | None = None, **options: Any
) -> Any:
    """Make a target from files where they exist, else from bundled ones of that name.

    With the path of a posteriordb, the model is the name of a posterior there.
    """
    if posteriordb is not None:
        if data is not None:
            raise StanadaptError(
                "settings",
                "--data names data of a program, and posteriors of posteriordb have their own: "
                "leave out --data or --posteriordb.",
            )
        return PosteriorDatabase(posteriordb).target(model, **options)
    program: Any = Path(model)
    source: Any = Path(data) if data else None
    if not program.is_file() and model in bundled.available():
        if source is not None and source.is_file():
            program = bundled.available()[model].path
        else:
            program, source = bundled.find(model, data)
    return Target(program, source, **options)


def read_inits(text: str | None) -> Any:
    if text is None or text == PATHFINDER:
        return text
    try:
        return float(text)
    except ValueError:
        return Path(text)


def read_settings(pairs: list[str] | None) -> dict[str, str]:
    for pair in pairs or []:
        if "=" not in pair:
            raise StanadaptError("settings", f"--set takes NAME=VALUE, got {pair!r}.")
    return dict(pair.split("=", 1) for pair in pairs or [])


def read_names(text: str | None) -> list[str] | None:
    """Names that are separated by commas; None: none were given."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def settings_by_sampler(pairs: list[str] | None, samplers: list[str]) -> dict[str, dict[str, str]]:
    """Settings of each sampler: those meant for all that have them, and its own.

    Raises
    ------
    StanadaptError
        Stage "settings", for a sampler that is not among these, or a setting that none has.

    """
    found: dict[str, dict[str, str]] = {name: {} for name in samplers}
    for given, value in read_settings(pairs).items():
        owner, _, name = given.rpartition(".")
        if owner and owner not in found:
            listed = ", ".join(samplers)
            raise StanadaptError(
                "settings", f"--set {given}: {owner} is not among the samplers ({listed})."
            )
        chosen = [owner] if owner else [s for s in samplers if name in names_of_settings(s)]
        if not chosen:
            raise StanadaptError("settings", f"--set {given}: none of the samplers has it.")
        for sampler in chosen:
            found[sampler][name] = value
    return found
