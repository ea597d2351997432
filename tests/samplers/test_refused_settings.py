"""Settings that a sampler refuses: the code of each refusal, and facts that it names.

Values of a wrong type: tests/targets/stan/test_bad_input.py, for all settings of all samplers.
"""

import numpy as np
import pytest

from stanadapt.samplers import find
from tests.helpers.codes import raises

LADDER, TEMPERATURES = [1.0, 0.7, 0.35, 0.15, 0.05, 0.0], (1.0, 2.8, 7.7, 21.6, 60.0)
NO_LADDERS = [
    ([0.9, 0.5, 0.0], "start at 1", "0.9, 0.5, 0"), ([1.0, 0.5, -0.1], "below 0"),
    (TEMPERATURES, "1 divided by each", "2.8", "60"), ([1.0], "two numbers"), (1, "two numbers"),
    ([1.0, 0.5, 0.5, 0.0], "decrease strictly", "number 3", "number 2"),
    ([1.0, 0.2, 0.5, 0.0], "decrease strictly", "number 3"),
]  # fmt: skip
NO_NUMBERS = [
    "1,half,0", "1,inf", True, [1, None], [1, np.nan], [1, [0.5, 0]], [[1, 0.5], [0.5, 0]],
]  # fmt: skip
ZETA = {"coordinate": "uniform", "learn_log_zeta": False}
# name, settings, code, facts
REFUSED = [
    *[("am", {name: value}, "invalid_setting", name, value)
      for name, value in (("decay", 0.0), ("mean_rate", 1.0), ("mean_rate", -0.1))],
    ("nuts", {"max_treedepth": 26}, "invalid_setting", "nuts: max_treedepth", 26, 25),
    ("walnuts", {"max_halvings": 13}, "invalid_setting", "walnuts: max_halvings", 13, 12),
    ("walnuts", {"max_treedepth": 26}, "invalid_setting", "walnuts: max_treedepth", 26, 25),
    *[("hmc", {"mass": mass}, "invalid_setting", "hmc", "mass", *facts)
      for mass, *facts in (([], "positive", "none"), ([1.0, 0.0], "positive", "1, 0"),
                           (-2, "positive", "-2"), ("1,heavy", "numbers", "heavy"))],
    *[("hvi", {name: value}, "invalid_setting", name, least) for name, value, least in
      (("transitions", 0, 1), ("leapfrogs", 0, 1), ("paths", 99, 100), ("grad_samples", 0, 1))],
    ("variational_mcmc", {"kernel": "gibbs"}, "invalid_setting", "independence, mixture, block"),
    ("kameleon", {"subsample": 100, "history": 199}, "invalid_setting", "history", "200", "199"),
    ("kameleon", {"kernel": "cubic"}, "invalid_setting", "kernel", "gaussian, linear", "'cubic'"),
    ("gad_mala", {"diagonal": True, "rank": 2}, "invalid_setting", "diagonal=True", "rank=2"),
    ("equi_energy", {"highest_temperature": 1.0}, "invalid_setting", "highest_temperature"),
    *[("parallel_tempering", {"swaps": "energy_rings", "rings": rings}, "invalid_setting", "rings",
       rings) for rings in (0, -1, 1001)],
    ("parallel_tempering", {"swaps": "rings"}, "invalid_setting", "swaps", "energy_rings"),
    *[("continuous_tempering", *row) for row in (
        ({"atom": 0.5}, "invalid_setting", "atom", 0.45, 0.5),
        ({"levels": 1}, "invalid_setting", "levels"),
        ({**ZETA, "log_zeta": np.inf}, "invalid_setting", "log_zeta", "inf"),
        ({"reference_family": "power"}, "improper_powers", "reference_family"),
        ({"log_zeta": 2.0}, "log_zeta_unused", 2.0),
        ({"learn_log_zeta": False}, "log_zeta_unused", 0.0),
    )],
    *[(name, {"inverse_temperatures": given}, "invalid_temperatures", name, *facts)
      for name in ("parallel_tempering", "simulated_tempering", "smc")
      for given, *facts in NO_LADDERS],
    *[("parallel_tempering", {"inverse_temperatures": given}, "invalid_setting", "numbers",
       "parallel_tempering: inverse_temperatures") for given in NO_NUMBERS],
    *[(name, {"inverse_temperatures": LADDER, **more}, code, name, *facts)
      for name in ("parallel_tempering", "simulated_tempering") for more, code, *facts in (
        ({"levels": 5}, "temperatures_conflict", "levels=5", "inverse_temperatures"),
        ({"min_inverse_temperature": 0.1}, "temperatures_conflict", "min_inverse_temperature=0.1"),
        ({"reference_family": "power"}, "improper_powers", "inverse_temperatures"),
    )],
    ("smc", {"inverse_temperatures": LADDER, "threshold": 0.9}, "temperatures_conflict",
     "threshold=0.9"),
    ("smc", {"inverse_temperatures": [1, 0.5, 0.05]}, "invalid_temperatures", "end at 0", "0.05"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[0]} {case[1]}"[:60])
def test_settings_are_refused(case):
    name, settings, code, *facts = case
    with raises(code, *facts):
        find(name, **settings)
