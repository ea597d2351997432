"""Runs with parts of one's own: a clock, the loop that advances chains, what keeps a folder."""

import inspect
import itertools
from functools import partial
from types import SimpleNamespace

import stanadapt as sa
from stanadapt.engine import chain
from stanadapt.runs.checkpoint import WriteCheckpoints
from stanadapt.runs.folder import RunFolder
from stanadapt.runs.prepare import prepare
from stanadapt.runs.resume import prepare_again
from stanadapt.runs.run import Run

# chunks of seven iterations, and a checkpoint after each
SMALL_CHUNKS = {"run_chains": partial(chain.run, chunk=7)}
EAGER = {"make_keeper": partial(WriteCheckpoints, seconds=0.0, share=1.0)}


def setup_of(target, sampler="auto", /, **arguments):
    """What `sample` would run with these arguments."""
    own = {name: arguments.pop(name, x) for name, x in sa.sample.__kwdefaults__.items()}
    return prepare(target, sampler, arguments, SimpleNamespace(**own))


def sample_with(parts, target, sampler="auto", /, **arguments):
    """`sample`, with other fields of its Setup."""
    return Run.begin(setup_of(target, sampler, **arguments)._replace(**parts)).finish()


def resume_with(parts, run, /, **arguments):
    """`resume`, with other fields of its Setup."""
    folder = RunFolder.open(run)
    with folder.lock():
        chosen = {"show_progress": False, **arguments}
        own = {
            name: chosen.get(name, x)
            for name, x in inspect.unwrap(sa.resume).__kwdefaults__.items()
        }
        setup, *begun = prepare_again(folder, None, SimpleNamespace(**own))
        return Run.reopen(setup._replace(**parts), folder, *begun).finish()


class Crash(Exception):
    """What ends a run in the middle of a test."""


class Crashing(WriteCheckpoints):
    """Ends the process after so many chunks, of which every third is followed by a checkpoint."""

    def __init__(self, after, *arguments):
        super().__init__(*arguments)
        self.after, self.count = after, itertools.count()

    def chunk_done(self, chain):
        number = next(self.count)
        if number == self.after:
            raise Crash
        if number % 3 == 0:
            self.write(chain)


def crash(after):
    """Return parts of a run that crashes after so many chunks of seven iterations."""
    return {**SMALL_CHUNKS, "make_keeper": partial(Crashing, after)}
