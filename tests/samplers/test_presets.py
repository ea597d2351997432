"""Presets: published settings by the name of the paper, overridden by what the user gives.

The expected settings are those of the papers' text and programs, not of the registry.
"""

import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine.registry import resolve, shown_preset
from stanadapt.engine.settings import as_chosen
from stanadapt.samplers import find, registered
from stanadapt.samplers.kameleon.kameleon import PUBLISHED
from tests.helpers.codes import raises

NORMAL = "parameters { vector[3] x; } model { x ~ normal([1, -2, 0.5]', [2, 0.5, 1]'); }"
EQUAL = np.linspace(1, 0, 1001).tolist()
# settings of each preset that are published, by sampler
EXPECTED = {
    ("gad_mala", "titsias2019"): {
        "target_accept": 0.55, "learning_rate": 1.5e-4, "initial_scale": 0.1, "adapt_every": 1,
        "diagonal": False, "rank": 0, "exact": False,
    },
    ("gad_rwm", "titsias2019"): {
        "target_accept": 0.25, "learning_rate": 5e-5, "initial_scale": 0.1, "adapt_every": 1,
        "diagonal": False,
    },
    ("am", "titsias2019"): {
        "target_accept": 0.25, "covariance_rate": 5e-4, "decay": 5000.0, "mean_rate": 0.01,
        "learning_rate": 0.005, "initial_scale": 10.0, "tune_scale": True, "diagonal": False,
    },
    ("rwm", "titsias2019"): {"target_accept": 0.25, "initial_scale": 0.1, "tune_scale": True},
    ("mala", "titsias2019"): {"target_accept": 0.55, "step_size": 0.1},
    ("hmc", "titsias2019"): {
        "target_accept": 0.7, "learning_rate": 0.01, "leapfrogs": 10, "jitter": 0.0,
    },
    ("am", "sejdinovic2014"): {"target_accept": 0.234, "tune_scale": True, "diagonal": False},
    ("rwm", "sejdinovic2014"): {"tune_scale": False, "initial_scale": 2.38},
    ("kameleon", "sejdinovic2014"): {
        "kernel": "gaussian", "subsample": 1000, "bandwidth": 10.0, "gamma": 0.2,
        "normalize_weights": False, "whiten": False, "whiten_kernel": False, "average": False,
        "target_accept": 0.234, "learning_power": 0.5, "discard": 500, "tune_early": False,
        "redraw": 1.0, "adapts_forever": False,
    },
    ("nice", "song2017"): {"local_share": 0.0, "width": 400},
    ("pseudo_extended", "nemeth2019"): {
        "pseudo_samples": 2, "kernel": "nuts", "reference_family": "power", "max_treedepth": 10,
        "target_accept": 0.8, "min_inverse_temperature": 0.001,
    },
    ("nuts", "nemeth2019"): {"target_accept": 0.8, "max_treedepth": 10, "dense": False},
    ("simulated_tempering", "nemeth2019"): {
        "inverse_temperatures": EQUAL, "kernel": "hmc", "leapfrogs": 20, "step_size": 0.5,
    },
    ("smc", "nemeth2019"): {
        "inverse_temperatures": EQUAL, "resample": False, "sweeps": 1, "particles": 100,
        "kernel": "hmc", "leapfrogs": 10, "step_size": 0.5,
    },
    ("parallel_tempering", "kou2006"): {
        "inverse_temperatures": [1 / t for t in (1, 2.8, 7.7, 21.6, 60)], "kernel": "random_walk",
        "reference_family": "power", "step_size": 0.25,
    },
    ("equi_energy", "kou2006"): {
        "levels": 5, "highest_temperature": 60.0, "jump_probability": 0.1, "step_size": 0.25,
    },
    ("continuous_tempering", "graham2017"): {
        "coordinate": "uniform", "atom": 0.0, "temperature_update": "joint", "leapfrogs": 20,
        "coordinate_scale": 1.0, "step_size": 0.5,
    },
    ("repelling_attracting", "tak2018"): {"tune_scale": False, "initial_scale": 2.0},
}  # fmt: skip
PRESETS = [(name, title) for name, sampler in registered().items() for title in sampler.presets]


def resolved(name, dim=100, **chosen):
    """Return sampler and settings as a run in `dim` dimensions without standardization has them."""
    sampler, settings, _ = resolve(name, chosen, dim)
    return sampler, as_chosen(settings)


def test_presets_are_expected_and_overridden():
    assert set(PRESETS) == set(EXPECTED)
    _, settings = resolved("am", preset="titsias2019", decay=7.0, initial_scale=0.3)
    assert (settings["decay"], settings["initial_scale"], settings["mean_rate"]) == (7.0, 0.3, 0.01)
    _, settings = resolved("am", dim=9, preset="titsias2019")
    assert settings["initial_scale"] == 3.0
    _, settings = resolved("nuts", preset="nemeth2019", adapt_delta=0.95)
    assert settings["target_accept"] == 0.95
    # fields of an instance, too, give way to a preset
    _, settings = resolved(PUBLISHED._replace(gamma=0.7), preset="sejdinovic2014", bandwidth=3.0)
    assert (settings["gamma"], settings["bandwidth"]) == (0.2, 3.0)


@pytest.mark.parametrize(("name", "title"), PRESETS)
def test_a_preset_gives_the_published_settings_whatever_the_defaults(name, title):
    """In 100 dimensions: all that a preset sets is expected, and nothing else differs."""
    sampler, settings = resolved(name, preset=title)
    assert sampler.standardize == "no"
    expected, preset = EXPECTED[name, title], registered()[name].presets[title]
    for setting, value in expected.items():
        found = settings[setting]
        assert (list(found) if isinstance(found, tuple) else found) == value, setting
    others = {k: v for k, v in as_chosen(sampler.settings()).items() if k not in expected}
    assert {k: settings[k] for k in others} == others
    assert {*expected} <= {*preset.settings, *preset.by_dimension}
    shown = shown_preset(registered()[name], title)
    assert "standardize=false" in shown
    assert len(shown) < 400
    # in standardized coordinates, on request, nothing that it sets changes
    _, settings, again = resolve(name, {"preset": title}, 7, moved=7)
    preset = registered()[name].presets[title]
    for setting in (*preset.settings, *preset.by_dimension):
        assert getattr(again, setting) == getattr(settings, setting)


def test_a_preset_of_another_sampler_is_refused():
    with raises("unknown_preset", "rwm", "'song2017'", "titsias2019", "sejdinovic2014", "nice"):
        find("rwm", preset="song2017")
    with raises("unknown_preset", "whitened_hmc", "none", "gad_mala"):
        find("whitened_hmc", preset="titsias2019")
    with raises("unknown_preset", "gad_mala", "mean 'titsias2019'"):
        find("gad_mala", preset="titsias2018")
    for wrong in (3, True, ["titsias2019"]):
        with raises("unknown_preset", "gad_mala", wrong):
            find("gad_mala", preset=wrong)
    target = sa.Target(NORMAL)
    with raises("unknown_preset", "whitened_hmc", "none"):
        sa.sample(target, preset="titsias2019", seed=1)


def test_a_run_records_its_preset(tmp_path):
    """And runs in the program's coordinates; a run folder continues it."""
    target = sa.Target(NORMAL)
    short = {"iter_warmup": 300, "iter_sampling": 40, "chains": 2, "seed": 1}
    fit = sa.sample(target, "am", preset="titsias2019", run=tmp_path / "run", **short)
    assert fit.attrs["preset"] == "titsias2019"
    assert fit.attrs["standardized"].startswith("no")
    settings = json.loads(fit.attrs["settings"])
    assert settings["initial_scale"] == pytest.approx(np.sqrt(3))
    assert settings["covariance_rate"] == 5e-4
    longer = sa.resume(tmp_path / "run", iter_sampling=60)
    assert longer.attrs["preset"] == "titsias2019"
    assert longer.attrs["settings"] == fit.attrs["settings"]
    own = sa.sample(target, "am", preset="titsias2019", standardize=True, **short)
    assert not own.attrs["standardized"].startswith("no")
    # the preset's scale, not the default of standardized coordinates
    assert json.loads(own.attrs["settings"])["initial_scale"] == pytest.approx(np.sqrt(3))
    assert "preset" not in sa.sample(target, "am", **short).attrs
