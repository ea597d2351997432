"""The command `stanadapt train-nice`, which trains a network and writes it into a file.

A file of its own, since training itself knows no command line.
"""

from pathlib import Path
from typing import Any

from stanadapt import results
from stanadapt.engine.commands import FileCommand, Option, Written, register_command
from stanadapt.samplers.nice.train import train_nice
from stanadapt.targets.target import Target


def write_network(
    target: Target, path: Path, *, warm_start: Path | None, **options: Any
) -> Written:
    """Train a network with options of `train_nice`, and write it."""
    fit = results.load(warm_start) if warm_start else None
    network = train_nice(target, warm_start=fit, **options)
    network.save(path)
    about = network.description
    lines = [
        f"step {about['step']}: {about['ess_per_draw']:.1%} effective draws, acceptance rate "
        f"{about['acceptance']:.0%}, trained in {about['seconds']:.0f} s",
        f"Network: {path}",
    ]
    return Written(lines, about["interrupted"])


register_command(
    FileCommand(
        "train-nice",
        r"Train a network for the sampler nice (needs JAX: pip install 'stanadapt\[learn]').",
        write_network,
        file="network.npz",
        file_help="The .npz file to write.",
        options={
            "warm_start": Option(
                Path | None, None, "File of an earlier fit: training begins with its draws."
            ),
            "iterations": Option(int, 2000, "Training steps of the generator."),
            "width": Option(int, 128, "Hidden units of each coupling layer."),
        },
    )
)
