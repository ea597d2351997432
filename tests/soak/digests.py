"""Hashes of what every sampler draws: code may be moved and rewritten while these stay the same.

    python -m tests.soak.digests --write before.json
    python -m tests.soak.digests --against before.json

Each registered sampler with each of the settings in `sampler_settings`, an `Extended` target, rows
in batches, runs that are resumed from their folder, and runs on the workers of an executor, with
two seeds each. Prints a line per case: its name, and the first 16 digits of a hash of all draws and
statistics. Hashes depend on the processor and on the versions of NumPy and Numba, so none is
committed.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import stanadapt as sa
from stanadapt import results
from stanadapt.samplers import registered
from stanadapt.samplers.langevin import Minibatches
from tests.helpers.extended_program import CODE, extend
from tests.helpers.rows_program import regression
from tests.helpers.sampler_settings import FASTER, VARIANTS

# three parameters, since some variants have a number for each
PROGRAM = """
parameters { vector[2] x; real<lower=0> s; }
model { x ~ normal([1, -20], [1e-3, 50]); s ~ gamma(3, (x[2] / 30)^2 + 1); }
generated quantities { real y = normal_rng(x[1], s); }
"""
LENGTH = {"chains": 2, "iter_warmup": 120, "iter_sampling": 60, "save_warmup": True}
SEEDS = (1, 2)
GROUPS = ("posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats")


def digest(fit):
    """Hash of all draws and statistics, warm-up included: names, shapes and bits."""
    found = hashlib.sha256()
    for group in GROUPS:
        data = results.dataset(fit, group)
        for name in sorted(data):
            found.update(
                f"{group} {name} {data[name].shape}".encode() + data[name].values.tobytes()
            )
    return found.hexdigest()[:16]


def cases(scratch):
    """Yield (name, function of a seed that returns a fit)."""
    plain = sa.Target(PROGRAM, backend="stanli", show_progress=False)
    typed = sa.Target(CODE, {"n": 3, "y": [0.1, 2.0, -1.0]}, backend="stanli", show_progress=False)

    def drawn(target, sampler, **settings):
        return lambda seed: sa.sample(
            target, sampler, seed=seed, show_progress=False, **{**LENGTH, **settings}
        )

    for name in registered():
        for settings in VARIANTS.get(name, [{}]):
            label = ", ".join([name, *(f"{key}={value}" for key, value in settings.items())])
            yield label, drawn(plain, name, **{**FASTER.get(name, {}), **settings})
    yield "auto", drawn(plain, "auto", iter_warmup=400)
    yield "auto on several types", drawn(typed, "auto", iter_warmup=400)
    yield "Extended, nuts", drawn(extend(typed), "nuts")
    yield (
        "prior data, parallel_tempering",
        drawn(typed, "parallel_tempering", prior_data={"n": 0, "y": []}),
    )
    yield (
        "warm start, gad_mala",
        lambda seed: drawn(plain, "gad_mala", warm_start=drawn(plain, "nuts")(seed))(seed),
    )
    yield "batches, sgld", drawn(Minibatches(regression(), ["X", "y"], 6), "sgld")
    for name in ("whitened_hmc", "gad_mala", "parallel_tempering", "am"):
        yield f"resumed, {name}", _resumed(drawn, plain, name, scratch)
        yield f"workers, {name}", _on_workers(drawn, plain, name)


def _resumed(drawn, target, name, scratch):
    def run(seed):
        folder = scratch / f"{name}_{seed}"
        drawn(target, name, iter_sampling=30, run=folder)(seed)
        return sa.resume(folder, iter_sampling=60, show_progress=False)

    return run


def _on_workers(drawn, target, name):
    def run(seed):
        with ThreadPoolExecutor(2) as executor:
            return drawn(target, name, executor=executor)(seed)

    return run


def main():
    """Print the hashes; with --against, the exit code is the number of those that differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="JSON file to write")
    parser.add_argument("--against", type=Path, help="JSON file to compare with")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    before = json.loads(chosen.against.read_text()) if chosen.against else {}
    found, different, began = {}, [], time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        for name, run in cases(Path(scratch)):
            if chosen.only not in name:
                continue
            found[name] = [digest(run(seed)) for seed in SEEDS]
            same = not before or before.get(name) == found[name]
            different += [] if same else [name]
            print(name, *found[name], "" if same else "DIFFERENT", flush=True)
    missing = [] if chosen.only else sorted(before.keys() - found.keys())
    if chosen.write:
        chosen.write.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{len(found)} cases, {time.monotonic() - began:.0f} s")
    if before:
        print(f"different: {len(different)} {different}; not run: {len(missing)} {missing}")
    return min(len(different) + len(missing), 100)


if __name__ == "__main__":
    sys.exit(main())
