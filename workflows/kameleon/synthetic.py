"""Curved targets: the synthetic experiments of Sejdinovic et al. (2014), Kernel Adaptive MH.

    python -m workflows.kameleon.synthetic --quick    # does it run?
    python -m workflows.kameleon.synthetic            # ten chains per method: 5 to 10 minutes
    python -m workflows.kameleon.synthetic --targets strong --methods KAMH-LS ours --repeats 40

Five methods on two bananas and a flower in 8 dimensions, all from 0 and with equal numbers of
density evaluations: one at the start, one per iteration. SM is a random walk of covariance 2.38^2 /
8 I; AM-FS and AM-LS are Adaptive Metropolis with s = 2.38 / sqrt(8) and with s tuned to acceptance
rate 0.234; KAMH-LS is kameleon with the authors' bandwidth for each target, and "ours" is kameleon
with its defaults. SM, AM-LS and KAMH-LS have preset=sejdinovic2014. Two measures show how far the
draws of each chain are from the truth: the norm of their mean, which is 0 for the target, and the
coverage of quantile regions.

The tables also hold the numbers of the paper's draft and of a re-implementation of the authors'
code. Finally `contours` draws the learned proposal.
"""

import argparse
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt import results
from stanadapt.engine.settings import as_chosen
from stanadapt.samplers import find
from stanadapt.targets.stan import bundled
from workflows import record, terminal
from workflows.conclude import finish
from workflows.kameleon import contours, discrepancy, tables

NAME = "kameleon/synthetic"
REPEATS, QUICK_REPEATS, QUICK_ITERATIONS = 10, 2, 300
CAPTION = (
    "Chains start at 0. Norm of the mean and coverage are of the draws after warm-up, not thinned; "
    "'±' is the standard deviation over chains, except for the deviation, when it is the standard "
    "error of the mean. Deviation: mean over chains and nine levels of |coverage - level|. "
    "Microseconds: warm-up and sampling, without compilation, as many chains at a time as there "
    "are cores. 'draft': the table in the paper's draft of 2013; 'redone': an independent "
    "re-implementation of the authors' code. Differences from both: our AM starts from a small "
    "multiple of I and stops adapting at the end of warm-up; theirs knew the variances of the "
    "bananas and kept adapting, at rates that fall more slowly, so that their draws lean toward "
    "the center and ours do not. The docstring of `kameleon` lists how KAMH-LS differs. Proposals "
    "that follow the curves pay off only if a density costs much more than a proposal: see the "
    "microseconds."
)
QUICK_NOTE = (
    f"Quick run, {QUICK_ITERATIONS} + {QUICK_ITERATIONS} iterations: it shows that the workflow "
    "runs. Its numbers, figures and verdicts mean nothing."
)


class Experiment(NamedTuple):
    """A target and its budget.

    degrees_of_freedom
        Degrees of freedom of the generated quantity radius_squared under the target.
    bandwidth
        For KAMH-LS: the authors' choice.
    """

    program: str
    data: str
    warmup: int
    draws: int
    degrees_of_freedom: int
    bandwidth: float


EXPERIMENTS = {
    "moderate": Experiment("banana", "moderate", 20_000, 20_000, 8, 5.0),
    "strong": Experiment("banana", "strong", 40_000, 40_000, 8, 10.0),
    "flower": Experiment("flower", "flower", 60_000, 60_000, 7, 5.0),
}
PRESET = {"preset": "sejdinovic2014"}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "SM": ("rwm", PRESET),
    "AM-FS": ("am", {"tune_scale": False}),
    "AM-LS": ("am", PRESET),
    "KAMH-LS": ("kameleon", PRESET),
    "ours": ("kameleon", {}),
}


class Job(NamedTuple):
    """All chains of one method on one target."""

    name: str
    experiment: Experiment
    method: str
    chains: int


def settings_of(job: Job) -> tuple[str, dict[str, Any]]:
    """Return the sampler and its settings, with the bandwidth for the target."""
    sampler, settings = METHODS[job.method]
    if job.method == "KAMH-LS":
        settings = {**settings, "bandwidth": job.experiment.bandwidth}
    return sampler, settings


def sample(job: Job, seed: int) -> Any:
    """Run all chains of a job.

    Seeds differ between methods: standard errors of differences assume independent chains.
    """
    target = sa.Target(*bundled.find(job.experiment.program, job.experiment.data))
    key = [list(EXPERIMENTS).index(job.name), list(METHODS).index(job.method)]
    own_seed = int(np.random.SeedSequence([seed, *key]).generate_state(1)[0])
    plan = {
        "seed": own_seed, "inits": np.zeros(target.dim), "show_progress": False,
        "standardize": False,
    }  # fmt: skip
    sampler, settings = settings_of(job)
    # compile now, so that the first timed warm-up does not, and without remarks on one draw
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        sa.sample(target, sampler, chains=1, iter_warmup=1, iter_sampling=1, **plan, **settings)
    return sa.sample(
        target, sampler, chains=job.chains, iter_warmup=job.experiment.warmup,
        iter_sampling=job.experiment.draws, **plan, **settings,
    )  # fmt: skip


def measured(fit: Any, job: Job) -> pd.DataFrame:
    """One row per chain."""
    iterations = job.experiment.warmup + job.experiment.draws
    evaluations = fit.attrs["n_density"]
    if evaluations != job.chains * (1 + iterations):
        raise sa.StanadaptError(
            "sampling",
            f"{evaluations} density evaluations, not {1 + iterations} in each of {job.chains} "
            "chains: methods would be compared at different costs.",
        )
    posterior, levels = fit["posterior"], np.array(discrepancy.LEVELS)
    radii = posterior["radius_squared"].values
    inside = discrepancy.coverage(radii, job.experiment.degrees_of_freedom)
    seconds = np.array(results.attribute(fit, "warmup_seconds")) + np.array(
        results.attribute(fit, "sampling_seconds")
    )
    return pd.DataFrame(
        {
            "target": job.name, "method": job.method, "settings": _bandwidth(job),
            "chain": np.arange(1, job.chains + 1), "seed": fit.attrs["seed"],
            "warmup": job.experiment.warmup, "draws": job.experiment.draws,
            "densities": 1 + iterations,
            "acceptance": fit["sample_stats"]["accepted"].values.mean(axis=1),
            "norm": discrepancy.norm_of_mean(posterior["x"].values),
            **{f"inside_{level}": inside[:, i] for i, level in enumerate(discrepancy.LEVELS)},
            "deviation": np.abs(inside - levels).mean(axis=1),
            "microseconds": 1e6 * seconds / iterations,
        }
    )  # fmt: skip


def _bandwidth(job: Job) -> str:
    return f"bandwidth {job.experiment.bandwidth:g}" if job.method == "KAMH-LS" else ""


def run(jobs: list[Job], seed: int) -> tuple[pd.DataFrame, list[str]]:
    """Run the jobs; returns one row per chain, and messages for the reader.

    After Ctrl-C: the jobs that were done.
    """
    parts, notes = [], []
    try:
        for job in terminal.each(jobs, lambda job: f"{job.name} {job.method}"):
            part, messages = _one(job, seed)
            parts.append(part)
            notes += [f"{job.name} {job.method}: {message}" for message in messages]
    except KeyboardInterrupt:
        notes.append(f"interrupted after {len(parts)} of {len(jobs)} jobs.")
    done = [part for part in parts if len(part)]
    return pd.concat(done, ignore_index=True) if done else pd.DataFrame(), notes


def _one(job: Job, seed: int) -> tuple[pd.DataFrame, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            fit = sample(job, seed)
            if fit.attrs["interrupted"]:
                raise KeyboardInterrupt
            rows, failure = measured(fit, job), []
        except sa.StanadaptError as error:
            if error.code == "interrupted":
                raise KeyboardInterrupt from None  # Ctrl-C during warm-up
            rows, failure = pd.DataFrame(), [f"failed: {' '.join(str(error).split())}"]
    return rows, failure + [str(w.message) for w in caught if issubclass(w.category, UserWarning)]


def _recorded(job: Job) -> dict[str, Any]:
    """Return all settings of a job by name, for the record."""
    name, settings = settings_of(job)
    return as_chosen(find(name, **settings)[1])


def _options() -> argparse.Namespace:
    parser = terminal.usual_parser(__doc__, NAME, "tiny lengths")
    for name, known in (("targets", list(EXPERIMENTS)), ("methods", list(METHODS))):
        parser.add_argument(
            f"--{name}", nargs="+", choices=known, default=known, metavar=name[:-1].upper(),
            help=f"one or more of {', '.join(known)}; default: all",
        )  # fmt: skip
    terminal.add_repeats(parser, REPEATS, QUICK_REPEATS)
    return parser.parse_args()


def _jobs(options: argparse.Namespace) -> list[Job]:
    chains, jobs = options.repeats or (QUICK_REPEATS if options.quick else REPEATS), []
    for name in options.targets:
        experiment = EXPERIMENTS[name]
        if options.quick:
            experiment = experiment._replace(warmup=QUICK_ITERATIONS, draws=QUICK_ITERATIONS)
        jobs += [Job(name, experiment, method, chains) for method in options.methods]
    return jobs


def main() -> None:
    """Run all, print, write, draw."""
    options, began = _options(), time.perf_counter()
    jobs, folder = _jobs(options), record.folder(NAME, options.out)
    rows, notes = run(jobs, options.seed)
    if rows.empty:
        raise SystemExit("\n".join([*notes, "No chain was finished: nothing was written."]))
    table = tables.summary(rows)
    tables.show(table)
    notes = [QUICK_NOTE] * options.quick + notes + tables.verdicts(table)
    text = tables.markdown(NAME, table, CAPTION, notes)
    paths = tables.write(folder, "synthetic", rows, table, text)
    paths.append(contours.draw(folder / "contours.png", options.seed, options.quick))
    settings = {
        **vars(options), "caption": CAPTION, "notes": notes,
        "jobs": {
            f"{job.name} {job.method}": {
                "chains": job.chains, "iter_warmup": job.experiment.warmup,
                "iter_sampling": job.experiment.draws, **_recorded(job),
            }
            for job in jobs
        },
        "contours": contours.CAPTION,
    }  # fmt: skip
    finish(folder / "synthetic.json", settings, paths, began)


if __name__ == "__main__":
    main()
