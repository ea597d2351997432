"""The command line: what a statistician types."""

import contextlib
import inspect
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stanadapt import diagnosis, protocol, results, run
from stanadapt import reference as nuts
from stanadapt.backends import cmdstan
from stanadapt.cmdstan_install import install_cmdstan as install
from stanadapt.compare import compare as compare_fits
from stanadapt.errors import StanadaptError
from stanadapt.models import available, find
from stanadapt.modes import modes as find_modes
from stanadapt.modes_told import spread_out
from stanadapt.plan import make_plan
from stanadapt.reference import choose_engine
from stanadapt.status import status
from stanadapt.target import Target

app = typer.Typer(
    name="stanadapt",
    help="Adaptive MCMC for Stan programs, side by side with Stan's NUTS, read in ArviZ.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

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
    str, typer.Option(help="Way to the density: auto, or one that `stanadapt doctor` lists.")
]
Unsafe = Annotated[
    bool,
    typer.Option("--unsafe", help="Skip the embedded backend's checks of the program's density."),
]
Noise = Annotated[
    list[str] | None,
    typer.Option(
        "--noise",
        help="A parameter that is the noise of an estimated density; may be repeated. For rwm, am "
        "and kameleon.",
    ),
]
Rho = Annotated[
    float, typer.Option(help="Correlation of a proposal's noise with the current one, in [0, 1).")
]
Chains = Annotated[int, typer.Option(help="Number of chains.")]
Parallel = Annotated[
    int | None, typer.Option(help="Chains at once; the draws do not depend on it.")
]
Threads = Annotated[
    int, typer.Option(help="Threads that share a chain's moves; the draws do not depend on it.")
]
Warmup = Annotated[
    int | None, typer.Option(help="Iterations of warm-up a chain; default: the sampler's.")
]
Draws = Annotated[
    int | None, typer.Option(help="Iterations of sampling a chain; default: the sampler's.")
]
Thin = Annotated[int, typer.Option(help="Keep every thin-th iteration.")]
Seed = Annotated[
    int | None, typer.Option(help="Same seed, same draws; default: a random one, recorded.")
]
Inits = Annotated[
    str | None,
    typer.Option(help="Where chains start: a radius, or a JSON file of constrained values."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Choices = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of the sampler, NAME=VALUE; may be repeated."),
]


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Errors and warnings as sentences on standard error; exit status 1, or 130 after Ctrl-C."""
    console = Console(stderr=True, soft_wrap=True)

    def show(message: Any, *args: Any, **kwargs: Any) -> None:
        console.print(f"[yellow]note:[/yellow] {_plain(str(message))}", highlight=False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        try:
            yield
        except StanadaptError as error:
            console.print(f"[red]error in {_plain(str(error))}[/red]", highlight=False)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            console.print("interrupted; nothing was written")
            raise typer.Exit(130) from None


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


def _target(model: str, data: str | None, **options: Any) -> Any:
    """Take files where there are files, else bundled programs of that name."""
    program: Any = Path(model)
    source: Any = Path(data) if data else None
    if not program.is_file() and model in available():
        name = None if data and Path(data).is_file() else data
        bundled = available()[model]
        if name is not None or data is None:
            program, source = find(model, name)
        else:
            program = bundled.path
    return Target(program, source, **options)


def _inits(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return Path(text)


def _chosen(pairs: list[str] | None) -> dict[str, str]:
    for pair in pairs or []:
        if "=" not in pair:
            raise StanadaptError("settings", f"--set takes NAME=VALUE, got {pair!r}.")
    return dict(pair.split("=", 1) for pair in pairs or [])


@app.command()
def sample(
    model: Model,
    data: Data = None,
    sampler: Annotated[str, typer.Option("--sampler", "-s", help="See `stanadapt samplers`.")] = (
        "gad_mala"
    ),
    out: Annotated[Path, typer.Option("--out", "-o", help="The netCDF file to write.")] = Path(
        "fit.nc"
    ),
    chains: Chains = 4,
    parallel_chains: Parallel = None,
    threads_per_chain: Threads = 1,
    iter_warmup: Warmup = None,
    iter_sampling: Draws = None,
    thin: Thin = 1,
    seed: Seed = None,
    inits: Inits = None,
    past: Annotated[
        Path | None,
        typer.Option(help="A file of an earlier fit that a sampler with a past learns from."),
    ] = None,
    prior_data: Annotated[
        Path | None,
        typer.Option(help="Data without observations, for a sampler that tempers: its hot end."),
    ] = None,
    save_warmup: Annotated[bool, typer.Option("--save-warmup", help="Keep warm-up too.")] = False,
    save_pseudo: Annotated[
        bool, typer.Option("--save-pseudo", help="Keep all pseudo-samples with their weights.")
    ] = False,
    choices: Choices = None,
    include: Include = None,
    backend: Backend = "auto",
    unsafe: Unsafe = False,
    noise: Noise = None,
    rho: Rho = 0.0,
    quiet: Quiet = False,
) -> None:
    """Draw from a Stan program with one sampler and write an ArviZ file."""
    with _told():
        path = results.check_writable(out)
        settings = protocol.find(sampler, **_chosen(choices))[1]
        target = _target(
            model, data, include_paths=include or (), backend=backend, unsafe=unsafe,
            noise=noise or (), rho=rho, show_progress=not quiet,
        )  # fmt: skip
        fit = run.sample(
            target, settings, chains=chains, parallel_chains=parallel_chains,
            threads_per_chain=threads_per_chain,
            iter_warmup=iter_warmup, iter_sampling=iter_sampling, thin=thin, seed=seed,
            inits=_inits(inits), past=results.load(past) if past else None,
            prior_data=prior_data, save_warmup=save_warmup, save_pseudo=save_pseudo,
            show_progress=not quiet,
        )  # fmt: skip
        results.save(fit, path)
        compare_fits({sampler: fit})
        print(f"ArviZ file: {path}")
        if results.attribute(fit, "interrupted"):
            raise typer.Exit(130)


@app.command()
def compare(
    model: Model,
    data: Data = None,
    samplers: Annotated[
        str, typer.Option("--samplers", "-s", help="Names, separated by commas.")
    ] = "gad_mala",
    reference: Annotated[
        str,
        typer.Option(help="Stan's NUTS to compare with: auto, cmdstan, stanli, or none."),
    ] = "auto",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the ArviZ files and the table.")
    ] = None,
    chains: Chains = 4,
    parallel_chains: Parallel = None,
    iter_warmup: Warmup = None,
    iter_sampling: Draws = None,
    seed: Seed = None,
    inits: Inits = None,
    include: Include = None,
    backend: Backend = "auto",
    unsafe: Unsafe = False,
    noise: Noise = None,
    rho: Rho = 0.0,
    quiet: Quiet = False,
) -> None:
    """Draw with several samplers and Stan's NUTS, and print cost and agreement side by side."""
    with _told():
        names = [name.strip() for name in samplers.split(",") if name.strip()]
        for name in names:
            protocol.find(name)  # what is wrong is told before anything has run
        make_plan(
            chains=chains, parallel_chains=parallel_chains, thin=1, seed=seed,
            iter_warmup=iter_warmup or 0, save_warmup=False, show_progress=False,
            iter_sampling=1 if iter_sampling is None else iter_sampling,
        )  # fmt: skip
        if reference != "none":
            choose_engine(reference)
        if out is not None:
            results.check_writable(out / "comparison.csv")
        target = _target(
            model, data, include_paths=include or (), backend=backend, unsafe=unsafe,
            noise=noise or (), rho=rho, show_progress=not quiet,
        )  # fmt: skip
        common = {
            "chains": chains, "parallel_chains": parallel_chains, "seed": seed,
            "inits": _inits(inits), "show_progress": not quiet,
        }  # fmt: skip
        lengths = {"iter_warmup": iter_warmup, "iter_sampling": iter_sampling}
        _compare(target, names, reference, out, common, lengths)


def _compare(
    target: Any, names: list[str], engine: str, out: Path | None, common: dict, lengths: dict
) -> None:
    """Each fit is written as soon as it is there; Ctrl-C ends the comparison with what it has."""
    fits: dict[str, Any] = {}
    stans = "stan_nuts" if "nuts" in names else "nuts"  # beside our own sampler of that name
    for name in ([stans] if engine != "none" else []) + names:
        try:
            if name == stans:
                fits[name] = nuts(target, engine=engine, **common)
            else:
                fits[name] = run.sample(target, name, **common, **lengths)
        except StanadaptError as error:
            if error.fit is not None and out is not None:
                print(f"its draws: {results.save(error.fit, out / f'{name}.nc')}")
            raise
        if out is not None:
            results.save(fits[name], out / f"{name}.nc")
        if results.attribute(fits[name], "interrupted"):
            break
    table = compare_fits(fits)
    if out is not None:
        table.to_csv(out / "comparison.csv", index_label="fit")
        print(f"ArviZ files and table: {out}")
    if any(results.attribute(fit, "interrupted") for fit in fits.values()):
        raise typer.Exit(130)


@app.command()
def modes(
    model: Model,
    fit: Annotated[Path, typer.Argument(help="A netCDF file that `sample` or `compare` wrote.")],
    data: Data = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A CSV file for the table.")
    ] = None,
    include: Include = None,
    backend: Backend = "auto",
    unsafe: Unsafe = False,
    quiet: Quiet = False,
) -> None:
    """List the modes that the draws of a fit visited, their weights, and whether chains agree."""
    with _told():
        path = results.check_writable(out) if out is not None else None
        drawn = results.load(fit)
        target = _target(
            model, data, include_paths=include or (), backend=backend, unsafe=unsafe,
            show_progress=not quiet,
        )  # fmt: skip
        table = find_modes(target, drawn)
        if path is not None:
            spread_out(table).to_csv(path)
            print(f"table: {path}")


@app.command()
def samplers(
    name: Annotated[str | None, typer.Argument(help="One sampler, with all its settings.")] = None,
) -> None:
    """List the samplers: what each is for, its settings and their defaults."""
    with _told():
        console = Console(soft_wrap=True)
        if name is None:
            for sampler in protocol.registered().values():
                _show_sampler(console, sampler)
            console.print("`stanadapt samplers NAME` explains the settings and gives the sources.")
            return
        sampler, _ = protocol.find(name)
        _show_sampler(console, sampler)
        console.print(f"\n{_plain(sampler.documentation)}\n", highlight=False)
        console.print(_plain(inspect.getdoc(sampler.settings) or ""), highlight=False)


def _show_sampler(console: Console, sampler: Any) -> None:
    chosen = protocol.as_chosen(sampler.settings())
    defaults = ", ".join(f"{k}={v}" for k, v in chosen.items())
    summary = " ".join(sampler.documentation.split("\n\n")[0].split())
    console.print(f"[bold]{sampler.name}[/bold]  {_plain(summary)}", highlight=False)
    lengths = f"iter_warmup={sampler.iter_warmup}, iter_sampling={sampler.iter_sampling}"
    console.print(f"    {defaults}; {lengths}", highlight=False)


@app.command()
def models() -> None:
    """List the bundled Stan programs and their data sets."""
    with _told():
        table = Table(box=None, header_style="bold")
        for column in ("program", "data", "what it is for"):
            table.add_column(column)
        for program in available().values():
            table.add_row(program.name, ", ".join(program.data), _plain(program.description))
        Console().print(table)


@app.command()
def doctor() -> None:
    """Say what is installed, what is missing, and how to get it."""
    with _told():
        for line in diagnosis.lines():
            Console(soft_wrap=True).print(_plain(line), highlight=False)


@app.command(name="install-cmdstan")
def install_cmdstan() -> None:
    """Install CmdStan: the current release where GitHub answers, else 2.27.0 from the registry."""
    with _told():
        print(f"CmdStan: {install()}")
        with status(True) as tell:
            cmdstan.prepare(tell)


def main() -> None:
    """Entry point of the command `stanadapt`."""
    sys.exit(app())
