"""Warm-up in stages: their order and lengths, and chains that are stopped on the way."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from numba import typeof

import stanadapt as sa
import stanadapt.engine.authoring as sampler_api
from stanadapt.engine.authoring import Stage, ValuePoint, Warmup, all_left, jit, replace
from stanadapt.engine.protocol import REGISTRY
from stanadapt.engine.warmup import NO_BOUNDS, _is_alike, next_block
from tests.helpers.codes import raises, warns


class Chains(NamedTuple):
    starts: np.ndarray


def make_chains(warmup, starts):
    sampler = SimpleNamespace(warmup=warmup, name="mine", settings=Settings)
    return [
        SimpleNamespace(
            sampler=sampler, compiled_settings=None, state=start, progress=None, iter_warmup=100,
            bounds=NO_BOUNDS,
            n_done=0, pause=0, pausing=True, warming_up=True, count_as_warmup=lambda *seconds: None,
            end_warmup=lambda: None,
        )
        for start in starts
    ]  # fmt: skip


def advance(chains, stopped=()):
    for i, chain in enumerate(chains):
        if chain.pausing:
            chain.pausing = i not in stopped
            chain.n_done = chain.pause if chain.pausing else chain.n_done


def test_rows_of_progress_stay_with_their_chains():
    seen = []

    def begin(settings, progress, states):
        return progress._replace(chains=Chains(np.array(states))), states

    def learn(settings, progress, states):
        seen.append((progress.chains.starts.tolist(), states))
        return progress, states

    stage = Stage("learning", 5, learn=learn, then="only")
    chains = make_chains(Warmup({"only": stage}, "only", begin), [10, 20, 30, 40])
    for stopped in ((), (), (1,), (0,), ()):
        next_block(chains)
        advance(chains, stopped)
    next_block(chains)
    alive = [[10, 20, 30, 40]] * 2 + [[10, 30, 40]] + [[30, 40]] * 2
    assert seen == [(rows, rows) for rows in alive]


def blocks_of(warmup, iter_warmup):
    """Stage, window and length of all blocks, up to one after warm-up."""
    progress, states = warmup.start(None, ["state"], iter_warmup)
    found = []
    while progress.block:
        found.append((progress.stage, progress.window, progress.block))
        progress, states = warmup.after_block(None, progress, states)
    assert progress.label == "done"
    return found


def again(settings, progress, states):
    return progress._replace(then="walk" if progress.window < 2 else "tune"), states


def doubling(settings, progress):
    length = 10 * 2**progress.window
    return length if length <= progress.left - 20 else 0


STAGES = {
    "begin": Stage("beginning", 5, then="walk"),
    "walk": Stage("walking", doubling, learn=again),
    "tune": Stage("tuning", lambda settings, progress: min(50, progress.left)),
    "rest": Stage("what is left", all_left),
}


@pytest.mark.parametrize(("iter_warmup", "blocks"), [
    (0, []), (3, [("begin", 0, 3)]), (7, [("begin", 0, 5), ("rest", 0, 2)]),
    (60, [("begin", 0, 5), ("walk", 0, 10), ("walk", 1, 20), ("rest", 0, 25)]),
    (1000, [("begin", 0, 5), ("walk", 0, 10), ("walk", 1, 20), ("walk", 2, 40), ("tune", 0, 50)]),
])  # fmt: skip
def test_stages_follow_each_other_while_iterations_are_left(iter_warmup, blocks):
    assert blocks_of(Warmup(STAGES, "begin", without_room="rest"), iter_warmup) == blocks


def test_a_run_for_scales_alone_may_end_earlier():
    def stop(settings, before, progress, states):
        assert before.used == progress.used
        return progress._replace(then="") if progress.then == "tune" else progress

    warmup = Warmup(STAGES, "begin", revise=stop)
    assert [stage for stage, _, _ in blocks_of(warmup, 1000)] == ["begin", *["walk"] * 3]


# what is wrong: part of the stage, function, code, facts in the message
WRONG = {
    "no result": ("learn", lambda *given: None, ["must return progress and a list", "NoneType"]),
    "the states first": ("set_up", lambda s, p, x: (x, p), ["`set_up`", "got list, Progress"]),
    "a state too few": ("learn", lambda s, p, x: (p, x[1:]), ["each of 2 chains", "got 1"]),
    "another type": (
        "learn", lambda s, p, x: (p, [each._replace(starts=1) for each in x]),
        ["State.starts is int64, and was array(float64, 1d, C)"],
    ),
    "a class that Numba does not know": (
        "learn", lambda s, p, x: (p, [each._replace(starts=p) for each in x]), ["State.starts is"],
    ),
    "a stage that is not there": (
        "learn", lambda s, p, x: (p.to("Other"), x), ["'Other' cannot follow", "mean 'other'?"],
    ),
    "rows of other chains": (
        "set_up", lambda s, p, x: (p._replace(chains=Chains(np.zeros(3))), x), ["a row for each"],
    ),
    "a fraction of an iteration": ("length", lambda s, p: p.left / 2, ["whole number", "50.0"]),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WRONG)
def test_what_a_stage_returns_is_checked(mistake):
    part, function, facts = WRONG[mistake]
    stage = Stage("learning", 5, then="other")._replace(**{part: function})
    stages = {"only": stage, "other": Stage("resting", all_left)}
    chains = make_chains(Warmup(stages, "only"), [Chains(np.zeros(2)), Chains(np.zeros(2))])
    with raises("invalid_warmup", "stage 'only' of warm-up", *facts):
        for _ in range(2):
            next_block(chains)
            advance(chains)


def test_an_error_in_a_stage_names_the_stage_and_the_line():
    def learn(settings, progress, states):
        return {}["draws"], states

    chains = make_chains(Warmup({"only": Stage("learning", 5, learn=learn)}, "only"), [1])
    next_block(chains)
    advance(chains)
    with raises("sampler_raised", __file__, "in learn: KeyError: 'draws'", "stage 'only'"):
        next_block(chains)


class Settings(NamedTuple):
    """No settings."""


class State(NamedTuple):
    """The current point, one to write into, the scale of steps, and the draws of a block."""

    current: ValuePoint
    scratch: ValuePoint
    scale: float
    draws: np.ndarray
    rows: int


class Info(NamedTuple):
    """Statistics of one iteration."""

    acceptance_rate: float
    scale: float


@jit
def init(density, settings, position, rng):
    return State(
        current=sampler_api.value_at(density, position),
        scratch=sampler_api.unused_value(density.size),
        scale=1.0,
        draws=np.empty(0),
        rows=0,
    )


@jit
def step(density, settings, state, rng):
    x, y = state.current, state.scratch
    y.position[0] = x.position[0] + state.scale * rng.standard_normal()
    y = sampler_api.proposed(density, x, y, rng)
    rate = sampler_api.acceptance_probability(y.log_density - x.log_density)
    info = Info(acceptance_rate=rate, scale=state.scale)
    if rng.random() < rate:
        return replace(state, current=y, scratch=x), info
    return replace(state, scratch=y), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    if state.rows < state.draws.shape[0]:
        state.draws[state.rows] = state.current.position[0]
        return replace(state, rows=state.rows + 1)
    return state


def record(settings, progress, states):
    return progress, [s._replace(draws=np.empty(progress.block), rows=0) for s in states]


def learn_scale(settings, progress, states):
    scale = float(np.std([s.draws for s in states]))
    return progress, [s._replace(scale=scale, draws=np.empty(0)) for s in states]


STAGES_OF_SAMPLER = {
    "scale": Stage("learning the scale", 200, record, learn_scale, then="rest"),
    "rest": Stage("arriving", all_left),
}


@pytest.mark.parametrize("together", [True, False])
def test_a_sampler_of_ones_own_with_stages(monkeypatch, together, tmp_path):
    """If chains learn together, they have one scale; if not, each has its own."""
    warmup = Warmup(STAGES_OF_SAMPLER, "scale", together=together)
    sampler = sampler_api.Sampler(
        settings=Settings, state=State, info=Info, check=lambda settings: None, init=init,
        step=step, adapt=adapt, uses_gradient=False, standardize="no", warmup=warmup,
    )  # fmt: skip
    monkeypatch.setitem(REGISTRY, Settings, sampler)
    target = sa.Target("parameters { real x; } model { x ~ normal(0, 7); }")
    quiet = {"iter_warmup": 300, "iter_sampling": 200, "seed": 1}
    fits = [
        sa.sample(target, "test_warmup", chains=3, **how, **quiet)
        for how in ({"parallel_chains": 1}, {"parallel_chains": 3}, {"run": tmp_path / "run"})
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit["posterior"]["x"], fits[0]["posterior"]["x"])
    scales = fits[0]["sample_stats"]["scale"].values[:, -1]
    assert len(set(scales)) == (1 if together else 3)


# the density fails at every point near 0 but 0 itself, so that this chain is stopped in warm-up
TRAP = """
parameters { real x; }
model { if (x < 500) { if (x != 0) reject("near 0"); target += -8; } else x ~ normal(1000, 1); }
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trapped", [0, 2])
def test_chains_of_the_default_continue_if_another_is_stopped(trapped):
    inits = [{"x": 1000.0 + i} for i in range(3)]
    inits.insert(trapped, {"x": 0.0})
    target = sa.Target(TRAP, unsafe=True)
    with warns("stopped_chains", f"chain {trapped + 1}"):
        fit = sa.sample(target, "whitened_hmc", inits=inits, seed=1, iter_sampling=400)
    x = fit["posterior"]["x"].values
    assert x.shape == (3, 400)
    # 400 effective draws or so: four standard errors
    assert abs(x.mean() - 1000) < 4 / np.sqrt(400)


def test_values_taken_for_alike_have_one_type():
    a = np.zeros((4, 5))
    fixed, shifted = a.copy(), np.frombuffer(bytearray(41), np.uint8)[1:].view(float)
    fixed.flags.writeable = False
    values = (
        a, a.T, a[:, ::2], a[:1], fixed, shifted, np.zeros(5), np.zeros((4, 5), int), 1.0, True, 1,
        np.zeros((4, 5), np.float32), 2**63, np.float64(1.0),
    )  # fmt: skip
    alike = [(x, y) for x in values for y in values if _is_alike(x, y)]
    assert all(typeof(x) == typeof(y) for x, y in alike)
    assert len(alike) > len(values) - 4
