"""What compilation costs: each sampler from an empty cache, in a process of its own.

    python -m workflows.benchmarks.compilation
    python -m workflows.benchmarks.compilation --samplers whitened_hmc nuts --functions 15

Per sampler, seconds of processor time of a short run: in all (without imports, with a pre-run that
learns scales), in Numba, and in its phases: `python` (type inference and other passes), `lowering`
(to LLVM's language, as text), `parse`, `optimize` (with the emission of machine code). On a busy
machine the same work takes more processor time. With --functions, those that took longest, callees
not counted. The first row is a function that only adds two numbers: Numba's preparations for the
first function of any process. The last row is one process for all samplers, which share code.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import pandas as pd

from workflows import terminal

PROGRAM = """
parameters { vector[3] x; real<lower=0> s; }
model { x ~ normal([1, -20, 0], [1e-3, 50, 2]); s ~ gamma(3, x[3]^2 + 1); }
"""
LENGTHS = {"chains": 2, "iter_warmup": 120, "iter_sampling": 20}
ALL, ONE = "all together", "one addition"
# methods of Numba's code library, by phase
PHASES = {
    "parse": ("add_ir_module",),
    "optimize": (
        "finalize", "_optimize_functions", "_optimize_final_module", "get_pointer_to_function",
    ),
}  # fmt: skip


class Clock:
    """Processor time by phase and by function; that of a nested phase counts only there."""

    def __init__(self):
        self.seconds, self.by_function, self.compiled = Counter(), Counter(), Counter()
        self._stack, self._last = [], time.process_time()

    def enter(self, phase, function=None):
        """Begin a phase, of the function that is being compiled unless given."""
        self._charge()
        self._stack.append((phase, function or (self._stack[-1][1] if self._stack else "")))

    def leave(self):
        """End the phase that began last."""
        self._charge()
        self._stack.pop()

    def _charge(self):
        now = time.process_time()
        if self._stack:
            phase, function = self._stack[-1]
            self.seconds[phase] += now - self._last
            self.by_function[function] += now - self._last
        self._last = now

    def listen(self):
        """Follow Numba's events, and the methods of its code library."""
        from numba.core import codegen, event

        clock = self

        class Compilation(event.Listener):
            def on_start(self, occurred):
                function = occurred.data["dispatcher"].py_func
                name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
                clock.compiled[name] += 1
                clock.enter("python", name)

            def on_end(self, occurred):
                clock.leave()

        class Pass(event.Listener):
            def on_start(self, occurred):
                lowering = "lowering" in occurred.data["name"]
                clock.enter("lowering" if lowering else "python")

            def on_end(self, occurred):
                clock.leave()

        event.register("numba:compile", Compilation())
        event.register("numba:run_pass", Pass())
        for phase, names in PHASES.items():
            for name in names:
                for kind in _with_subclasses(codegen.CPUCodeLibrary):
                    if name in vars(kind):
                        setattr(kind, name, self._timed(getattr(kind, name), phase))

    def _timed(self, method, phase):
        def timed(*arguments):
            self.enter(phase)
            try:
                return method(*arguments)
            finally:
                self.leave()

        return timed


def _with_subclasses(kind):
    return [kind, *(below for one in kind.__subclasses__() for below in _with_subclasses(one))]


def child(names, n_functions):
    """Sample briefly with each sampler; return the costs."""
    warnings.simplefilter("ignore")
    import arviz  # noqa: F401 - a result needs it, and it takes a second

    import stanadapt as sa
    from stanadapt.samplers import registered

    clock = Clock()
    clock.listen()
    if names == [ONE]:
        return measured(clock, n_functions, add)
    if names == [ALL]:
        names = registered()
    target = sa.Target(PROGRAM, backend="stanli", show_progress=False)

    def sample():
        for name in names:
            settings = {"subsample": 100} if name == "kameleon" else {}
            sa.sample(target, name, seed=1, show_progress=False, **LENGTHS, **settings)

    return measured(clock, n_functions, sample)


def add():
    """Compile an addition, and call it."""
    from stanadapt.engine.compiled.jit import jit

    return jit(lambda x, y: x + y)(1.0, 2.0)


def measured(clock, n_functions, work):
    """Do some work; return its costs."""
    began = time.process_time()
    work()
    return {
        "seconds": time.process_time() - began,
        "numba": sum(clock.seconds.values()),
        **{phase: clock.seconds[phase] for phase in ("python", "lowering", *PHASES)},
        "functions": len(clock.compiled),
        "compilations": clock.compiled.total(),
        "largest": clock.by_function.most_common(n_functions),
        "repeated": clock.compiled.most_common(n_functions),
    }


def measure(name, n_functions):
    """Return the costs of a sampler in a new process with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-m", "workflows.benchmarks.compilation", "--child", name,
             "--functions", str(n_functions)],
            env={**os.environ, "STANADAPT_CACHE": cache, "NUMBA_CACHE_DIR": cache},
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def main():
    """Measure and report."""
    parser = terminal.parser(__doc__)
    parser.add_argument("--samplers", nargs="+", help="default: every sampler, then all together")
    parser.add_argument("--functions", type=int, default=0, help="costly functions to print")
    parser.add_argument("--out", type=Path, help="CSV file to write")
    parser.add_argument("--child", help="for this script's own use")
    args = parser.parse_args()
    if args.child:
        print(json.dumps(child([args.child], args.functions)))
        return
    from stanadapt.samplers import registered

    rows = {}
    for name in args.samplers or [ONE, *registered(), ALL]:
        rows[name] = measure(name, args.functions)
        largest, repeated = rows[name].pop("largest"), rows[name].pop("repeated")
        print(name, *(f"{key} {value:.4g}" for key, value in rows[name].items()), flush=True)
        for title, listed in (("seconds", largest), ("compilations", repeated)):
            for function, number in listed:
                print(f"    {function:50} {number:8.4g} {title}")
    table = pd.DataFrame(rows).T
    print(table.round(2).to_string())
    if args.out:
        table.to_csv(args.out)


if __name__ == "__main__":
    main()
