"""The command `stanadapt train-nice`, which trains a network and writes it into a file.

A file of its own, since training itself knows no command line.
"""

from pathlib import Path
from typing import Any

from stanadapt.engine.commands import FileCommand, Written
from stanadapt.samplers.nice.train import train_nice
from stanadapt.targets.target import Target


def write_network(target: Target, path: Path, **options: Any) -> Written:
    """Train a network with options of `train_nice`, and write it."""
    network = train_nice(target, **options)
    network.save(path)
    about = network.description
    lines = [
        f"step {about['step']}: {about['ess_per_draw']:.1%} effective draws, acceptance rate "
        f"{about['acceptance']:.0%}, trained in {about['seconds']:.0f} s",
        f"Network: {path}",
    ]
    return Written(lines, about["interrupted"])


COMMAND = FileCommand(
    write_network,
    train_nice,
    ("warm_start", "iterations", "width", "inits", "seed", "show_progress"),
    file="network.npz",
    about_file="The .npz file to write.",
)
