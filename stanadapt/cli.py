"""The command line."""

import contextlib
import inspect
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stanadapt import results
from stanadapt.diagnostics.compare import compare as compare_fits
from stanadapt.diagnostics.modes import modes as find_modes
from stanadapt.diagnostics.modes_report import with_scalar_columns
from stanadapt.errors import ConvergenceWarning, StanadaptError
from stanadapt.samplers.registry import as_chosen, find, registered
from stanadapt.sampling.choose_sampler import ABOUT_AUTO, AUTO, require_sampler
from stanadapt.sampling.plan import make_plan
from stanadapt.sampling.sample import sample as draw
from stanadapt.sampling.stan_nuts.stan_nuts import choose_engine
from stanadapt.sampling.stan_nuts.stan_nuts import stan_nuts as draw_with_stan_nuts
from stanadapt.targets.stan import bundled
from stanadapt.targets.stan.backends import cmdstan
from stanadapt.targets.stan.doctor import lines as doctor_lines
from stanadapt.targets.stan.install_cmdstan import install_cmdstan as install
from stanadapt.targets.stan.status import status
from stanadapt.targets.target import Target

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
Thin = Annotated[int, typer.Option(help="Keep every thin-th iteration.")]
Seed = Annotated[
    int | None, typer.Option(help="Same seed, same draws; default: random, and recorded.")
]
Inits = Annotated[
    str | None,
    typer.Option(help="Where chains start: a radius, or a JSON file of constrained values."),
]
Standardize = Annotated[
    bool | None, typer.Option(help="Standardise by a pre-run; default: as suits the sampler.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not show progress.")]
Choices = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of the sampler, NAME=VALUE; may be repeated."),
]


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Print errors and warnings on standard error; exit with 1, or with 130 after Ctrl-C."""
    console = Console(stderr=True, soft_wrap=True)

    def show(message: Any, *args: Any, **kwargs: Any) -> None:
        console.print(f"[yellow]note:[/yellow] {_plain(str(message))}", highlight=False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)  # stands below the table
        warnings.filterwarnings("default", ".* is now called ", FutureWarning)
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
    """Make a target from files where they exist, else from bundled ones of that name."""
    program: Any = Path(model)
    source: Any = Path(data) if data else None
    if not program.is_file() and model in bundled.available():
        if source is not None and source.is_file():
            program = bundled.available()[model].path
        else:
            program, source = bundled.find(model, data)
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


def _print_version(asked: bool) -> None:
    if asked:
        print(f"stanadapt {version_of('stanadapt')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Define the options of `stanadapt` itself."""


@app.command()
def sample(
    model: Model,
    data: Data = None,
    sampler: Annotated[
        str, typer.Option("--sampler", "-s", help="auto, or one listed by `stanadapt samplers`.")
    ] = AUTO,
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
    warm_start: Annotated[
        Path | None,
        typer.Option("--warm-start", "--past", help="File of a fit to learn from (kameleon)."),
    ] = None,
    prior_data: Annotated[
        Path | None,
        typer.Option(help="Data without observations: samplers that temper start from this prior."),
    ] = None,
    standardize: Standardize = None,
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
    with _reported():
        path = results.check_writable(out)
        settings: Any = _chosen(choices)
        require_sampler(sampler, **settings)
        target = _target(
            model, data, include_paths=include or (), backend=backend, unsafe=unsafe,
            noise=noise or (), rho=rho, show_progress=not quiet,
        )  # fmt: skip
        fit = draw(
            target, sampler, chains=chains, parallel_chains=parallel_chains,
            threads_per_chain=threads_per_chain,
            iter_warmup=iter_warmup, iter_sampling=iter_sampling, thin=thin, seed=seed,
            inits=_inits(inits), warm_start=results.load(warm_start) if warm_start else None,
            prior_data=prior_data, standardize=standardize, save_warmup=save_warmup,
            save_pseudo=save_pseudo, show_progress=not quiet, **settings,
        )  # fmt: skip
        results.save(fit, path)
        compare_fits({results.attribute(fit, "sampler"): fit})
        print(f"ArviZ file: {path}")
        if results.attribute(fit, "interrupted"):
            raise typer.Exit(130)


@app.command()
def compare(
    model: Model,
    data: Data = None,
    samplers: Annotated[
        str, typer.Option("--samplers", "-s", help="Names, separated by commas; or auto.")
    ] = AUTO,
    stan_nuts: Annotated[
        str,
        typer.Option(
            "--stan-nuts", "--reference", help="Engine of Stan's NUTS: auto, cmdstan, stanli, none."
        ),
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
    with _reported():
        names = [name.strip() for name in samplers.split(",") if name.strip()]
        for name in names:
            require_sampler(name)
        make_plan(
            chains=chains, parallel_chains=parallel_chains, thin=1, seed=seed,
            iter_warmup=iter_warmup or 0, save_warmup=False, show_progress=False,
            iter_sampling=1 if iter_sampling is None else iter_sampling,
        )  # fmt: skip
        if stan_nuts != "none":
            choose_engine(stan_nuts)
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
        _compare(target, names, stan_nuts, out, common, lengths)


def _compare(
    target: Any, names: list[str], engine: str, out: Path | None, common: dict, lengths: dict
) -> None:
    """Write each fit as soon as it is complete; Ctrl-C ends with a comparison of these."""
    fits: dict[str, Any] = {}
    stans = "stan_nuts" if "nuts" in names else "nuts"  # where our own sampler has that name
    for name in ([stans] if engine != "none" else []) + names:
        try:
            if name == stans:
                fits[name] = draw_with_stan_nuts(target, engine=engine, **common)
            else:
                fits[name] = draw(target, name, **common, **lengths)
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
    with _reported():
        path = results.check_writable(out) if out is not None else None
        drawn = results.load(fit)
        target = _target(
            model, data, include_paths=include or (), backend=backend, unsafe=unsafe,
            show_progress=not quiet,
        )  # fmt: skip
        table = find_modes(target, drawn)
        if path is not None:
            with_scalar_columns(table).to_csv(path)
            print(f"table: {path}")


@app.command()
def samplers(
    name: Annotated[str | None, typer.Argument(help="One sampler, with all its settings.")] = None,
) -> None:
    """List the samplers: what each is for, its settings and their defaults."""
    with _reported():
        console = Console(soft_wrap=True)
        if name is None:
            console.print(f"[bold]{AUTO}[/bold]  {ABOUT_AUTO}", highlight=False)
            for sampler in registered().values():
                _show_sampler(console, sampler)
            console.print("`stanadapt samplers NAME` explains its settings and cites its sources.")
            return
        sampler, _ = find(name)
        _show_sampler(console, sampler)
        console.print(f"\n{_plain(sampler.documentation)}\n", highlight=False)
        console.print(_plain(inspect.getdoc(sampler.settings) or ""), highlight=False)


def _show_sampler(console: Console, sampler: Any) -> None:
    chosen = as_chosen(sampler.settings())
    defaults = ", ".join(f"{k}={v}" for k, v in chosen.items())
    summary = " ".join(sampler.documentation.split("\n\n")[0].split())
    console.print(f"[bold]{sampler.name}[/bold]  {_plain(summary)}", highlight=False)
    lengths = f"iter_warmup={sampler.iter_warmup}, iter_sampling={sampler.iter_sampling}"
    console.print(f"    {defaults}; {lengths}", highlight=False)


@app.command()
def models() -> None:
    """List the bundled Stan programs and their data sets."""
    with _reported():
        table = Table(box=None, header_style="bold")
        for column in ("program", "data", "what it is for"):
            table.add_column(column)
        for program in bundled.available().values():
            table.add_row(program.name, ", ".join(program.data), _plain(program.description))
        Console().print(table)


@app.command()
def doctor() -> None:
    """Report what is installed, what is missing, and how to get it."""
    with _reported():
        for line in doctor_lines():
            Console(soft_wrap=True).print(_plain(line), highlight=False)


@app.command(name="install-cmdstan")
def install_cmdstan() -> None:
    """Install CmdStan: the current release if GitHub is reachable, else 2.27.0 by pip."""
    with _reported():
        print(f"CmdStan: {install()}")
        with status(True) as report:
            cmdstan.prepare(report)


def main() -> None:
    """Run the command `stanadapt`."""
    sys.exit(app())
