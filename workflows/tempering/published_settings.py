"""Rivals of Nemeth et al. (2019) as their papers ran them, with presets: table 1 and figure 5.

    python -m workflows.tempering.published_settings --quick    # does it run?
    python -m workflows.tempering.published_settings            # a few minutes

Parallel tempering at temperatures 1, 2.8, 7.7, 21.6 and 60 and the equi-energy sampler
(preset=kou2006), and repelling-attracting Metropolis (preset=tak2018), on twenty Gaussians, with
50,000 draws. Simulated tempering and annealed importance sampling with 1,000 equal steps of the
inverse temperature (preset=nemeth2019) and continuous tempering (preset=graham2017), on a Boltzmann
machine, with 10,000 draws, 200 or 100 particles. `mixture` and `boltzmann` run them with our
defaults, at equal cost.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import pandas as pd

import stanadapt as sa
from workflows import terminal
from workflows.conclude import Results, conclude, text_table
from workflows.tempering import boltzmann, mixture, study
from workflows.tempering.published import BOLTZMANN, ITERATIONS, MOMENTS, TABLE
from workflows.tempering.runs import PARTICLES, Chain, Length, Method, own_seed, run_length

NAME = "tempering/published_settings"
PUBLISHED = ", as published"
SYSTEM, POSTER_DRAWS, PARTICLE_COUNT = "system_10", 10_000, 100
ON_MIXTURES = {
    "RAM": Method("repelling_attracting", {"preset": "tak2018"}),
    "EE": Method("equi_energy", {"preset": "kou2006"}),
    "PT": Method("parallel_tempering", {"preset": "kou2006"}),
}
ON_MACHINES = {
    "simulated tempering": Method("simulated_tempering", {"preset": "nemeth2019"}),
    "annealed importance sampling": Method(PARTICLES, {"preset": "nemeth2019"}),
    "joint continuous tempering": Method("continuous_tempering", {"preset": "graham2017"}),
}
REPEATS, QUICK_REPEATS, QUICK = 6, 2, 60
# a sweep of warm-up moves a replica at each of the 1,000 temperatures, and a later iteration lasts
# from one visit of the target to the next, some 460 moves
LENGTHS = {"simulated tempering": Length(100, 200)}
CAPTION = (
    "A repeat is one chain. In brackets: the standard deviation over repeats. 'paper': on twenty "
    "Gaussians table 1, on the Boltzmann machine medians of 10 repeats, read off the authors' "
    "poster. Warm-up has the length of the samplers' defaults, and tunes step sizes; without "
    "another one, the references of simulated and continuous tempering and of annealed importance "
    "sampling are learned in it. An iteration of simulated tempering makes moves at many of its "
    "1,000 temperatures: it has 100 of warm-up, and 200 draws. The published numbers of "
    "iterations are those of single moves."
)


def method_name(name: str) -> str:
    """Return the name of our row for a row of the paper: "equi_energy, as published" for EE."""
    method = {**ON_MIXTURES, **ON_MACHINES}[name]
    return ("annealed importance sampling" if method.sampler == PARTICLES else method.sampler) + (
        PUBLISHED
    )


def _chains(
    target: sa.Target, name: str, draws: int, args: argparse.Namespace, key: tuple[int, ...]
) -> tuple[list[Chain], list[str]]:
    method = {**ON_MIXTURES, **ON_MACHINES}[name]
    length = length_of(name, QUICK if args.quick else draws)
    return run_length(target, method, length, args.repeats, own_seed(args.seed, *key))


def length_of(name: str, draws: int) -> Length:
    """Return warm-up and draws of a row; particles have a draw each."""
    particles = name in ON_MACHINES and ON_MACHINES[name].sampler == PARTICLES
    usual = LENGTHS.get(name, Length(None, PARTICLE_COUNT if particles else draws))
    return usual._replace(draws=min(usual.draws, max(draws, PARTICLE_COUNT)))


def _on_mixture(
    scenario: str, args: argparse.Namespace, number: int
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Run what a scenario has published rows of; rows, table and notes."""
    known, parts, notes, lines = mixture.Known(scenario), [], [], []
    for index, name in enumerate(ON_MIXTURES):
        if name not in TABLE[scenario]:
            continue
        rows, remarks = _rows(
            known.target, name, ITERATIONS, args, (number, index),
            lambda chain: {"scenario": scenario, **mixture.measured(known, chain)},
        )  # fmt: skip
        parts.append(rows)
        notes += remarks
        lines.append({
            "method": method_name(name), "from": "here", "repeats": str(len(rows)),
            **{moment: study.spread(rows[moment], 3) for moment in MOMENTS},
            "modes": study.spread(rows["modes"], 1), **study.shown_costs(rows),
        })  # fmt: skip
        lines.append(mixture.published(name, "paper", TABLE[scenario][name]))
    truth = study.truth(dict(zip(MOMENTS, known.moments, strict=True)), 3)
    return pd.concat(parts, ignore_index=True), text_table([truth, *lines]), notes


def _on_machine(
    args: argparse.Namespace, number: int
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Run the rivals of figure 5; rows, table and notes."""
    system, parts, notes, lines = boltzmann.known(SYSTEM, args.seed), [], [], []
    for index, name in enumerate(ON_MACHINES):
        rows, remarks = _rows(
            system.target, name, POSTER_DRAWS, args, (number, index),
            lambda chain: {"scenario": SYSTEM, **boltzmann.measured(system, chain)},
        )  # fmt: skip
        parts.append(rows)
        notes += remarks
        lines.append(boltzmann.ours(method_name(name), rows))
        if name in BOLTZMANN:
            known = f"{BOLTZMANN[name]:.2f}"
            lines.append({"method": name, "from": "paper", "repeats": "10", "RMSE": known})
    return pd.concat(parts, ignore_index=True), text_table(lines), notes


def _rows(
    target: sa.Target,
    name: str,
    draws: int,
    args: argparse.Namespace,
    key: tuple[int, ...],
    measured: Callable[[Chain], dict[str, Any]],
) -> tuple[pd.DataFrame, list[str]]:
    chains, messages = _chains(target, name, draws, args, key)
    rows = study.rows({method_name(name): chains}, measured)
    return rows, [f"{target.name}, {method_name(name)}: {message}" for message in messages]


def main() -> None:
    """Run all, print, write."""
    began = time.perf_counter()
    parser = terminal.usual_parser(__doc__, NAME, "tiny lengths")
    terminal.add_repeats(parser, REPEATS, QUICK_REPEATS)
    args = parser.parse_args()
    args.repeats = args.repeats or (QUICK_REPEATS if args.quick else REPEATS)
    results = Results({}, [], [], [])
    scenarios = list(mixture.SCENARIOS)
    jobs = [*scenarios, SYSTEM]
    for number, name in enumerate(terminal.each(jobs)):
        if name == SYSTEM:
            rows, text, notes = _on_machine(args, number)
        else:
            rows, text, notes = _on_mixture(name, args, number)
        results.parts.append(rows)
        results.sections[name] = text
        results.notes.extend(notes)
    conclude(NAME, args, results, CAPTION, began)


if __name__ == "__main__":
    main()
