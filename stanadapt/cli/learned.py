"""The command `train-nice`."""

from pathlib import Path
from typing import Annotated

import typer

from stanadapt import results
from stanadapt.cli.files import require_writable
from stanadapt.cli.messages import reported
from stanadapt.cli.options import (
    Backend,
    Data,
    Force,
    Include,
    Inits,
    Model,
    Quiet,
    Seed,
    Unsafe,
    make_target,
    read_inits,
)
from stanadapt.samplers.nice.train_nice import train_nice as train


def train_nice(
    model: Model,
    data: Data = None,
    output: Annotated[
        Path, typer.Option("--output", "--out", "-o", help="The .npz file to write.")
    ] = Path("network.npz"),
    warm_start: Annotated[
        Path | None, typer.Option(help="File of a fit whose draws are learned from first.")
    ] = None,
    iterations: Annotated[int, typer.Option(help="Steps of the generator.")] = 2000,
    width: Annotated[int, typer.Option(help="Hidden units of each coupling.")] = 128,
    inits: Inits = None,
    seed: Seed = None,
    include: Include = None,
    backend: Backend = "auto",
    unsafe: Unsafe = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    r"""Train a network for the sampler nice (needs JAX: pip install 'stanadapt\[learn]')."""
    with reported():
        (path,) = require_writable([output], force)
        target = make_target(
            model, data, include_paths=include or (), backend=backend, unsafe=unsafe,
            show_progress=not quiet,
        )  # fmt: skip
        network = train(
            target, warm_start=results.load(warm_start) if warm_start else None,
            inits=read_inits(inits), iterations=iterations, width=width, seed=seed,
            show_progress=not quiet,
        )  # fmt: skip
        network.save(path)
        made = network.description
        print(
            f"step {made['step']}: {made['ess_per_draw']:.1%} effective draws, accepted "
            f"{made['acceptance']:.0%}, trained in {made['seconds']:.0f} s"
        )
        print(f"Network: {path}")
        if made["interrupted"]:
            raise typer.Exit(130)
