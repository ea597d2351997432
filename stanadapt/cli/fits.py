"""Commands on saved fits: `diagnose` and `table`."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from stanadapt import results
from stanadapt.cli.files import require_writable
from stanadapt.cli.messages import reported
from stanadapt.cli.options import Budget, Force, Variables, read_names
from stanadapt.diagnostics.compare import compare
from stanadapt.diagnostics.diagnose import diagnose as judge

File = Annotated[
    Path, typer.Argument(help="A netCDF file: of stanadapt, or another ArviZ object with draws.")
]
Files = Annotated[list[Path], typer.Argument(help="Two or more netCDF files of one program.")]


def diagnose(fit: File) -> None:
    """Say whether a fit can be used, what is wrong with it, and what to try."""
    with reported():
        judge(results.load(fit))


def table(
    files: Files,
    baseline: Annotated[
        str | None, typer.Option(help="Name of the file, without .nc, that is the baseline of z.")
    ] = None,
    variables: Variables = None,
    budget: Budget = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A CSV file for the table.")
    ] = None,
    force: Force = False,
) -> None:
    """Compare saved fits, of this package or of others."""
    with reported():
        if out is not None:
            require_writable([out], force)
        fits = dict(zip(names_of(files), map(results.load, files), strict=True))
        found = compare(fits, baseline, var_names=read_names(variables), budget=budget)
        if out is not None:
            found.to_csv(out, index_label="fit")
            print(f"table: {out}")


def names_of(files: list[Path]) -> list[str]:
    """Names of files without their endings; with their paths where two have the same."""
    count = Counter(path.stem for path in files)
    return [path.stem if count[path.stem] == 1 else str(path) for path in files]
