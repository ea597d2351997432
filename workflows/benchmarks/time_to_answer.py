"""Time to an answer: from a program and its data to a usable fit, compilation counted.

    python -m workflows.benchmarks.time_to_answer                         # ten bundled programs
    python -m workflows.benchmarks.time_to_answer --programs student_t,logistic/pima
    python -m workflows.benchmarks.time_to_answer --quick                 # does it run?

Each run is a new process, whose clocks start before Python does. It imports its package, compiles
what is to be compiled, draws four chains, and stops its clocks when the draws are in memory. If
R-hat is not below 1.01 or the bulk or tail effective sample size of a parameter not above 400,
which is computed off the clock, it draws twice as many, on the clock, up to eight times as many.

The first run of a program begins with empty caches; the second with samplers that are compiled, but
not the program; the third with all that the others have left. Peers come with compiled samplers, so
that their first run is their second. What programs share is compiled before, by each package's
installation: CmdStan's main program and precompiled header, and ours, which take about a minute of
one core. nutpie loads the library that our native backend compiles, as in `peers.py`: its own
compilation, by BridgeStan, is of the same kind. Where the library is there, it imports nothing of
ours.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np  # of all candidates; others are imported where they are used, on the clock

PROGRAMS = (
    "logistic/pima", "linear", "student_t", "eight_schools_noncentered", "negative_binomial",
    "ordered_logistic", "weibull", "varying_intercepts", "gaussian_process", "garch",
)  # fmt: skip
CANDIDATES = ("embedded", "native", "cmdstanpy", "nutpie")
EMPTY, NEW_PROGRAM, WARM = STATES = ("empty", "new program", "warm")
OURS = CANDIDATES[:2]
DRAWS, TIMES = 1000, (1, 2, 4, 8)  # per chain, and how many times as many are tried
BUILDS = "builds"  # of the cache, in which the shared parts are those named parts


def ours(backend):
    def prepare(program, data):
        import stanadapt as sa

        target = sa.Target(program, data, backend=backend, show_progress=False)

        def draw(seed, times):
            length = {} if times == 1 else {"iter_sampling": times * DRAWS}
            return sa.sample(target, seed=seed, show_progress=False, **length)

        return draw

    return prepare


def cmdstanpy(program, data):
    from cmdstanpy import CmdStanModel

    model = CmdStanModel(stan_file=str(program))

    def draw(seed, times):
        fit = model.sample(
            data=str(data), seed=seed, chains=4, iter_sampling=times * DRAWS, show_progress=False
        )
        fit.draws()
        return fit

    return draw


def nutpie(program, data):
    compiled = program.with_suffix(".json")
    if not compiled.exists():
        import stanadapt as sa

        target = sa.Target(program, data, backend="cmdstan", show_progress=False)
        compiled.write_text(json.dumps([str(target.model.lib_path), target.data]))
    from workflows.benchmarks import peers

    library, text = json.loads(compiled.read_text())

    def draw(seed, times):
        return peers.nutpie_trace(
            library, text, program.read_text(), seed=seed, chains=4, tune=1000, draws=times * DRAWS
        )

    return draw


PREPARE = {
    "embedded": ours("stanli"), "native": ours("cmdstan"), "cmdstanpy": cmdstanpy, "nutpie": nutpie,
}  # fmt: skip


def is_usable(fit, program, data):
    import stanadapt as sa
    from workflows.benchmarks.against_nuts import measured

    names = None
    if "parameters" not in getattr(fit, "attrs", {}):  # of a peer
        names = sa.Target(program, data, backend="stanli", show_progress=False).recorded_parameters
    fit = sa.load(fit.runset.csv_files) if hasattr(fit, "runset") else fit  # of CmdStanPy
    return measured(fit, names)["usable"]


def run_here(prepare, program, data, seed, began, usable=is_usable, now=time.time):
    """Return seconds of the clock and of processors until a usable fit; NaN if there is none."""
    off = np.zeros(2)

    def clocks():
        kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
        used = [resource.getrusage(kind) for kind in kinds]
        return np.array([now() - began, sum(u.ru_utime + u.ru_stime for u in used)])

    draw = prepare(program, data)
    for times in TIMES:
        fit = draw(seed, times)
        stopped = clocks()
        if usable(fit, program, data):
            wall, processor = stopped - off
            return {"wall": wall, "processor": processor, "times": times}
        off += clocks() - stopped
    return {"wall": np.nan, "processor": np.nan, "times": np.nan}


def runs_of(name, candidate, seed):
    """Run a candidate on a program in each state of the caches; return the rows."""
    from stanadapt.engine.compiled.cache_folder import cache_root
    from stanadapt.targets.stan.bundled import find

    program, data = find(*name.split("/"))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder, program.name)
        shutil.copy(program, own)
        builds = Path(folder, "cache", BUILDS)
        builds.mkdir(parents=True)
        for part in (cache_root() / BUILDS).glob("parts-*"):
            (builds / part.name).symlink_to(part)
        environment = os.environ | {"STANADAPT_CACHE": str(Path(folder, "cache"))}
        for state in STATES[candidate not in OURS :]:
            if state == NEW_PROGRAM:
                for build in builds.glob(f"{program.stem}-*"):
                    shutil.rmtree(build) if build.is_dir() else build.unlink()
            words = [candidate, str(own), str(data), str(seed), str(time.time())]
            done = subprocess.run(
                [sys.executable, "-m", "workflows.benchmarks.time_to_answer", "--here", *words],
                env=environment, capture_output=True, text=True,
            )  # fmt: skip
            row = {"program": name, "candidate": candidate, "caches": state}
            if done.returncode:
                raise SystemExit(f"{row}: {done.stderr[-1000:]}")
            rows.append(row | json.loads(done.stdout.splitlines()[-1]))
    return rows


def summary(rows):
    """Return seconds by program, with candidates and caches as columns, and geometric means."""
    table = rows.pivot(index="program", columns=["caches", "candidate"], values="processor")
    table = table.loc[rows["program"].unique()]
    table.loc["geometric mean"] = np.exp(np.log(table).mean(skipna=False))
    wall = rows.pivot(index="program", columns=["caches", "candidate"], values="wall")
    table.loc["geometric mean, by the clock"] = np.exp(np.log(wall).mean(skipna=False))
    order = [(state, name) for state in STATES for name in CANDIDATES if (state, name) in table]
    table = table[order].map(lambda x: f"{x:.3g}")
    table.columns = [f"{name}, {state}" for state, name in table.columns]
    return table.reset_index()


def main():
    if sys.argv[1:2] == ["--here"]:
        candidate, program, data, seed, began = sys.argv[2:]
        found = run_here(PREPARE[candidate], Path(program), Path(data), int(seed), float(began))
        print(json.dumps(found))
        return
    import pandas as pd

    from workflows import record, terminal
    from workflows.benchmarks.samplers import show
    from workflows.conclude import markdown_table

    parser = terminal.usual_parser(__doc__, "benchmarks/time_to_answer", "one program, embedded")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="names, with commas")
    parser.add_argument("--candidates", default=",".join(CANDIDATES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    programs, candidates = options.programs.split(","), options.candidates.split(",")
    if options.quick:
        programs, candidates = programs[:1], ["embedded"]
    began, rows = time.perf_counter(), []
    folder = record.folder("benchmarks/time_to_answer", options.out)
    for name in programs:
        for candidate in candidates:
            rows += runs_of(name, candidate, options.seed)
            pd.DataFrame(rows).to_csv(folder / "runs.csv", index=False)
    table = summary(pd.DataFrame(rows))
    show("Processor seconds to a usable fit", table)
    (folder / "summary.md").write_text(markdown_table(table) + "\n", encoding="utf-8")
    record.write_settings(
        folder / "settings.json", {**vars(options), "seconds": time.perf_counter() - began}
    )


if __name__ == "__main__":
    main()
