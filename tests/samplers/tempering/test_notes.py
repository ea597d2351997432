"""Notes on tempering runs: each at its threshold, with its facts."""

import numpy as np
import pytest
import xarray as xr

from stanadapt.errors import codes_of
from stanadapt.samplers.tempering import equi_energy
from stanadapt.samplers.tempering.evidence import group
from stanadapt.samplers.tempering.findings import report_jumps
from stanadapt.samplers.tempering.notes import (
    DEAD_WEIGHT,
    FEWEST_TRIPS,
    LARGEST_BARRIER,
    MODE_NOTES,
    PARTICLE_NOTES,
    Tempered,
    apply,
    of_run,
)
from tests.helpers.run_view import view_of
from tests.helpers.tempering import learned, ringed


def on_a_path(chains, trips=100, weight=None):
    """Return notes on chains, results of `learned`."""
    stats = {"round_trips": np.zeros((2, 50), np.int64)}
    stats["round_trips"][0, 0] = trips
    if weight is not None:
        stats["largest_weight"] = np.full((2, 50), weight)
    return of_run(Tempered("pseudo_extended", group(chains, 0.0), stats))


EVEN = learned(occupancy=[10, 11, 9, 10])


def longer(last):
    """Results of a chain with more levels, the last of which was visited so often."""
    return learned(levels=6, occupancy=[20, 20, 20, 20, 20, last])


def coordinated(*occupancy):
    constants = {"log_zeta": 3.0, "log_zeta_correction": -0.5}
    return learned() | constants | {"coordinate_occupancy": np.array(occupancy)}


LIMITS = {"trips": FEWEST_TRIPS, "weight": DEAD_WEIGHT}
# results of chains, statistics, code, facts
ON_A_PATH = [
    ([EVEN], {"weight": 0.99}, "", ()), ([learned(barrier=LARGEST_BARRIER)], LIMITS, "", ()),
    ([learned(barrier=2.0), learned(barrier=15.3)], {}, "large_barrier", ("15.3",)),
    # of all chains together
    ([learned(), learned()], {"trips": 0}, "few_round_trips", ("0",)),
    ([learned()], {"trips": FEWEST_TRIPS - 1}, "few_round_trips", (str(FEWEST_TRIPS - 1),)),
    ([EVEN], {"weight": 0.999}, "", ()),
    ([EVEN], {"weight": 0.9999}, "idle_pseudo_samples", ("1.000",)),
    # of one pseudo-sample the weight is always 1, and no level is ever visited
    ([learned(occupancy=None)], {"weight": 1.0, "trips": 0}, "", ()),
    # in one of the chains; the NaN after the last level of the shorter ladder do not count
    ([EVEN, longer(0.5)], {}, "uneven_visits", ("0.03",)), ([EVEN, longer(5)], {}, "", ()),
    ([ringed(0.2), ringed(0.5)], {}, "", ()),
    ([ringed(0.2), ringed(0.61)], {}, "empty_rings", ("61%",)),
    ([coordinated(*[0.1] * 10)], {}, "", ()),
    # with the constant that would even it
    ([coordinated(*[0.1] * 10), coordinated(*[0.109] * 9, 0.009)], {}, "uneven_visits",
     ("0.09", "log_zeta=2.5")),
]  # fmt: skip


def particles(evidence, ancestors=100.0, levels=9):
    """Return notes on runs of smc with these log evidences."""
    chains = len(evidence)
    tempering = xr.Dataset({
        "log_evidence": ("chain", np.array(evidence, float)),
        "effective_ancestors": ("chain", np.full(chains, ancestors)),
        "temperature": (("chain", "level"), np.zeros((chains, levels))),
    })  # fmt: skip
    stats = {"particle": np.tile(np.arange(50.0), (chains, 1))}
    return apply(PARTICLE_NOTES, Tempered("smc", tempering, stats))


def jumps(chains=4, **changed):
    """Return notes on a run of the equi-energy sampler."""
    whole = {"n_jumps": 1, "n_jumps_accepted": 1, "n_empty": 0, "ring": 0} | changed
    stats = {name: np.full((chains, 10), value) for name, value in whole.items()}
    return report_jumps(view_of(equi_energy.Settings(), stats, sampler_name="equi_energy")).messages


def modes(volumes=(), **found):
    """Return notes on modes of these log volumes."""
    return apply(MODE_NOTES, Tempered("a_name", None, {}, log_volumes=np.array(volumes), **found))


OF_OTHERS = [
    (particles([1.0, 1.1, 0.9, 1.0]), "", ()),
    (particles([1.0, 1.1, 0.9, 1.0], 7.0), "few_ancestors", ("7",)),
    (particles([1.0, 4.1, 0.9, 1.0]), "evidence_spread", ("3.2",)),
    (particles([1.0, -np.inf, 0.9, 1.0]), "evidence_unknown", ("1 of 4",)),
    (particles([1.0, 1.1], levels=201), "too_many_stages", ("200",)),
    (jumps(), "", ()), (jumps(n_empty=1), "empty_files", ("50%",)),
    (jumps(n_jumps=4), "rejected_jumps", ("25%",)), (jumps(3), "shared_file_error", ("4",)),
    (modes(), "", ()), (modes([1.0, 5.5]), "", ()),
    (modes([1.0, 3.0, 5.7]), "unequal_mode_volumes", ("a_name", "2.0")),
    (modes(short_chains=40), "", ()),
    (modes(short_chains=40, unvisited=3), "unvisited_regions", ("a_name", "3", "40")),
]  # fmt: skip


@pytest.mark.parametrize(("found", "code", "facts"), [
    *[(on_a_path(chains, **stats), code, facts) for chains, stats, code, facts in ON_A_PATH],
    *OF_OTHERS,
])  # fmt: skip
def test_notes_have_their_thresholds(found, code, facts):
    assert codes_of(found) == ([code] if code else [])
    assert all(fact in note for note in found for fact in facts)
