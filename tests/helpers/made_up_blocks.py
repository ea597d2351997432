"""A warm-up of the default sampler at any of its stages, and blocks of draws that are made up."""

import numpy as np

from stanadapt.samplers.whitened.schedule import WARMUP
from stanadapt.samplers.whitened.window import LOG_DENSITY, make_room
from tests.helpers.gaussian_target import Gaussian, make_chains_at

SD = np.array([1e-3, 1.0, 1e3])


def begun(begin=None, ceiling=2000, **settings):
    """Settings, progress and states of chains before their first block, four by default."""
    begin = np.random.default_rng(1).uniform(-2, 2, (4, len(SD))) if begin is None else begin
    made = make_chains_at(Gaussian(np.zeros(begin.shape[1]), np.ones(begin.shape[1])), begin)
    chosen = made[0].settings._replace(**settings)
    return chosen, *WARMUP.start(chosen, [chain.state for chain in made], ceiling)


def at(progress, stage, block, used=100, fixed=None, nuts=None, **learned):
    """Progress at a block of a stage, with other fields of `Learned`, `Fixed` and `Nuts`."""
    known = progress.learned
    known = known._replace(
        fixed=known.fixed._replace(**(fixed or {})), nuts=known.nuts._replace(**(nuts or {})),
        **learned,
    )  # fmt: skip
    return progress._replace(stage=stage, block=block, used=used, learned=known)


def filled(state, length, log_density=0.0, positions=0.0, gradients=0.0):
    """The state of a chain after a block."""
    record = make_room(state, length).record
    for rows, values in ((record.positions, positions), (record.gradients, gradients)):
        rows[:length] = values
    record.numbers[:length] = 0.0
    record.numbers[:length, LOG_DENSITY] = log_density
    record.rows[0] = length
    return state._replace(record=record)


def after(settings, progress, states, warmup=WARMUP):
    """Progress and states after a block in which nothing happened, unless states are filled."""
    if states[0].record.rows != progress.block:
        states = [filled(state, progress.block) for state in states]
    return warmup.after_block(settings, progress, states)
