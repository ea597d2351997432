"""The tests catch faults planted in a copy of the package.

The first are those that a Metropolis correction, a lucky start or a loose tolerance can hide.
Slow: every copy is compiled again.
"""

import os
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests.helpers.planted_learned import LEARNED
from tests.helpers.planted_map import STRAIGHTENING
from tests.helpers.planted_tempering import TEMPERING
from tests.helpers.planted_walnuts import WALNUTS
from tests.helpers.repository import ROOT

EVERY, HAMILTONIAN = "samplers/test_every_sampler.py", "engine/test_nuts_tree.py"
WHITENED = "samplers/whitened/test_whitened_hmc.py"


class Bug(NamedTuple):
    """A fault, and the test that detects it.

    file, right, wrong
        The file in `stanadapt/`, the correct text in it, and its replacement.
    test, chosen
        The test file in `tests/`, and the expression that selects tests in it.

    """

    file: str
    right: str
    wrong: str
    test: str
    chosen: str


BUGS = {
    "gradient_sign": Bug(
        "engine/checks.py",
        "g[0] = 2.0 - np.exp(x[0])",
        "g[0] = np.exp(x[0]) - 2.0",
        EVERY,
        "derivative",
    ),
    "wrong_reverse_move": Bug(
        "samplers/gad/gad_mala.py",
        "m[i] = forward[i] + 0.5 * v[i]",
        "m[i] = forward[i]",
        EVERY,
        "gad_mala and invariant",
    ),
    "wrong_drift": Bug(
        "samplers/gad/gad_mala.py",
        "forward[i] = 0.5 * u[i] + eps[i]",
        "forward[i] = 0.4 * u[i] + eps[i]",
        "samplers/gad/test_published_results.py",
        "neals_gaussian and gadMALAf",
    ),
    "determinant_transposed": Bug(
        "samplers/gad/proposal_factor.py",
        "weight * inverse[k, rank + m], v[m]",
        "weight * inverse[m, rank + k], v[m]",
        "samplers/gad/test_proposal_factor.py",
        "derivative",
    ),
    "no_rejection": Bug(
        "engine/points.py",
        "return np.exp(log_ratio)",
        "return 1.0",
        EVERY,
        "rwm and not gad and invariant",
    ),
    "adaptation_backwards": Bug(
        "engine/adaptation.py",
        "(acceptance_rate - target_accept) / target_accept",
        "(target_accept - acceptance_rate) / target_accept",
        EVERY,
        "mala and adaptation and not gad",
    ),
    "adaptation_never_stops": Bug(
        "engine/chain.py",
        "adapting = warming_up or self.sampler.adapts_forever",
        "adapting = True",
        EVERY,
        "frozen and rwm and not gad",
    ),
    "randomness_outside_rng": Bug(
        "samplers/rwm.py",
        "accepted = rng.random() < rate",
        "accepted = np.random.random() < rate",
        EVERY,
        "threads and rwm and not gad",
    ),
    "one_seed_for_all": Bug(
        "engine/plan.py",
        ".spawn(self.chains)",
        ".spawn(1) * self.chains",
        EVERY,
        "randomness and rwm and not gad",
    ),
    "allocation_in_a_step": Bug(
        "samplers/langevin/mala.py",
        "state.noise, s, rng",
        "state.noise.copy(), s, rng",
        EVERY,
        "allocates and mala and not gad",
    ),
    "symmetric_proposal": Bug(
        "samplers/kameleon/kernel_proposal.py",
        "return log_ratio - 0.5 * squared_norm(noise)",
        "return 0.0 * log_ratio",
        "samplers/kameleon/test_kameleon.py",
        "invariant",
    ),
    "noise_counted_twice": Bug(
        "engine/points.py",
        "total += 0.5 * position[i] * position[i]",
        "total += 0.0 * position[i] * position[i]",
        "targets/test_estimated.py",
        "exact and rwm",
    ),
    "no_checks_across_the_halves": Bug(
        "engine/nuts_tree.py",
        "return not (outward and other_first > 0.0 and other_last > 0.0)",
        "return not (whole_first > 0.0 and whole_last > 0.0)",
        HAMILTONIAN,
        "equals_the_recursion",
    ),
    "u_turn_at_one_end_only": Bug(
        "engine/nuts_tree.py",
        "whole_first > 0.0 and whole_last > 0.0 and one_first",
        "whole_last > 0.0 and one_first",
        HAMILTONIAN,
        "equals_the_recursion",
    ),
    "new_half_without_weight": Bug(
        "engine/nuts_tree.py",
        "log_ratio > 0.0 or rng.random() < np.exp(log_ratio)",
        "log_ratio > 0.0 or rng.random() < 1.0",
        "samplers/hamiltonian/test_nuts.py",
        "leaves_the_target",
    ),
    "metric_inverted": Bug(
        "engine/adaptation.py",
        "covariance[0, i] = np.sqrt(covariance[0, i])",
        "covariance[0, i] = 1.0 / np.sqrt(covariance[0, i])",
        "samplers/hamiltonian/test_nuts_tuning.py",
        "covariance",
    ),
    "metric_of_the_gradients": Bug(
        "samplers/whitened/fisher_metric.py",
        "_geometric_mean(draws + ridge * unit, slopes + ridge * unit)",
        "_geometric_mean(slopes + ridge * unit, draws + ridge * unit)",
        "samplers/whitened/test_fisher_metric.py",
        "exact",
    ),
    "chains_pooled_in_order_of_arrival": Bug(
        "engine/warmup.py",
        "waiting = [chain for chain in chains if chain.pausing]",
        "waiting = sorted((c for c in chains if c.pausing), key=lambda c: c.warmup_seconds)",
        WHITENED,
        "same_bits",
    ),
    "warm_up_looks_at_the_clock": Bug(
        "samplers/whitened/arriving.py",
        "if settled or progress.used > TRAVEL_SHARE",
        "if settled or __import__('time').perf_counter_ns() // 1000 % 3 == 0 or 0 > TRAVEL_SHARE",
        WHITENED,
        "same_bits",
    ),
    "warm_up_goes_on": Bug(
        "engine/warmup.py",
        "        if not progress.block:\n            chain.end_warmup()",
        "        if not progress.block:\n            chain.pause = -1",
        WHITENED,
        "ends_when_it_has_settled",
    ),
    "kicks_at_one_side": Bug(
        "engine/leapfrog.py",
        "momentum[i] += kick * force[i]\n    return log_density",
        "momentum[i] += 0.25 * step_size * force[i]\n    return log_density",
        "engine/test_two_stage.py",
        "",
    ),
    "whole_kick_at_the_start": Bug(
        "samplers/gad/trajectory_derivative.py",
        "weight = 0.5 if k == 0 else 1.0",
        "weight = 1.0",
        "samplers/gad/test_gad_hmc.py",
        "log_ratio",
    ),
    "entropy_of_another_length": Bug(
        "samplers/gad/gad_hmc.py",
        "quarter_period(steps) ** 4",
        "quarter_period(steps) ** 2",
        "samplers/gad/test_gad_hmc.py",
        "entropy",
    ),
    "jacobian_of_the_temperature": Bug(
        "samplers/tempering/pseudo_extension.py",
        "abs(u) - 2.0 * np.log1p(np.exp(-abs(u)))",
        "abs(u) - 1.0 * np.log1p(np.exp(-abs(u)))",
        "samplers/tempering/test_pseudo_extension.py",
        "",
    ),
    "queue_does_not_wait": Bug(
        "engine/work_queue.py",
        "_read(queue, DONE) < count",
        "_read(queue, DONE) < count - 1",
        "engine/test_work_queue.py",
        "",
    ),
    "numbers_not_restored": Bug(
        "engine/compiled/by_reference.py",
        "    if not isinstance(kind, NAMED_TUPLES):\n        return value\n    parts = zip(",
        "    if not isinstance(kind, NAMED_TUPLES):\n        return owner\n    parts = zip(",
        "engine/compiled/test_by_reference.py",
        "",
    ),
    "frozen_chain_passes": Bug(
        "diagnostics/draw_checks.py",
        "frozen = fit.same.all(axis=1) if fit.columns else np.zeros(1, bool)",
        "frozen = np.zeros(1, bool)",
        "diagnostics/test_verdict.py",
        "fault",
    ),
    "r_hat_not_a_number_passes": Bug(
        "diagnostics/draw_checks.py",
        "values = {name: np.inf if np.isnan(x) else x for name, x in r_hat.items()}",
        "values = {name: 0.0 if np.isnan(x) else x for name, x in r_hat.items()}",
        "diagnostics/test_verdict.py",
        "not_a_number",
    ),
    "field_in_another_place": Bug(
        "engine/compiled/replace.py",
        "parts[state.fields.index(name)] = value",
        "parts[len(parts) - 1 - state.fields.index(name)] = value",
        "engine/compiled/test_replace.py",
        "",
    ),
    "weight_under_an_earlier_approximation": Bug(
        "samplers/variational/variational_mcmc.py",
        "return _refresh(settings, replace(state, averaged=0))",
        "return replace(state, averaged=0)",
        "samplers/variational/test_variational_mcmc.py",
        "present_q",
    ),
    "ratio_of_one_component_of_a_mixture": Bug(
        "samplers/variational/variational_mcmc.py",
        "log_mixture(x.log_approximation, near, share) - log_mixture(log_q, near, share)",
        "x.log_approximation - log_q",
        EVERY,
        "variational_mcmc-kernel-degrees and invariant",
    ),
    "block_drawn_from_the_marginal": Bug(
        "samplers/variational/proposal.py",
        "entry += _precision(q, row, i) * (position[i] - q.location[i])",
        "entry += (i == row) * _precision(q, row, i) * (position[i] - q.location[i])",
        "samplers/variational/test_variational_mcmc.py",
        "conditional",
    ),
    "path_derivative_with_the_wrong_sign": Bug(
        "samplers/variational/advi.py",
        "slope[i] + climber.solved[i]",
        "slope[i] - climber.solved[i]",
        "samplers/variational/test_gaussians.py",
        "advi",
    ),
    "transposed_factor_of_the_inverse_hessian": Bug(
        "samplers/variational/pathfinder.py",
        "directions = basis @ vectors",
        "directions = basis @ vectors.T",
        "samplers/variational/test_gaussians.py",
        "root",
    ),
    "never_the_inverse_of_the_network": Bug(
        "samplers/nice/nice.py",
        "rng.random() < 0.5",
        "rng.random() < 1.0",
        "samplers/nice/test_nice.py",
        "exactly",
    ),
    "noise_of_the_network_left_out_of_the_ratio": Bug(
        "samplers/nice/nice.py",
        "log_ratio -= 0.5 * squared_norm(work.v)",
        "log_ratio -= 0.5 * squared_norm(work.v) * 0.0 + log_ratio",
        "samplers/nice/test_nice.py",
        "exactly",
    ),
    "coin_shared_by_chains": Bug(
        "samplers/nice/nice.py",
        "rng.random() < 0.5",
        "np.random.random() < 0.5",
        EVERY,
        "threads and nice",
    ),
    **{name: Bug(*fault) for name, fault in LEARNED.items()},
    **{name: Bug(*fault) for name, fault in STRAIGHTENING.items()},
    **{name: Bug(*fault) for name, fault in TEMPERING.items()},
    **{name: Bug(*fault) for name, fault in WALNUTS.items()},
}


@pytest.mark.parametrize("name", BUGS)
def test_bugs_can_still_be_planted(name):
    bug = BUGS[name]
    assert (ROOT / "stanadapt" / bug.file).read_text().count(bug.right) == 1
    assert (ROOT / "tests" / bug.test.split("::")[0]).exists()


# each compiles a copy of the package: the quick ones for every change, all of them in the soak
OFTEN = ["gradient_sign", None]
RARELY = [pytest.param(n, marks=pytest.mark.soak) for n in BUGS if n not in OFTEN]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OFTEN, *RARELY])
def test_planted_bug_is_caught(tmp_path, name):
    """Status 1 means that tests ran and failed; without a bug they pass."""
    for folder in ("stanadapt", "tests", "stan_models"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__p*__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    bug = BUGS.get(name, Bug("", "", "", EVERY, "rwm and not gad"))
    if name:
        path = tmp_path / "stanadapt" / bug.file
        text = path.read_text()
        path.write_text(text.replace(bug.right, bug.wrong))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "STANADAPT_CACHE": str(tmp_path)}

    def python(*arguments):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    # it is the copy that is tested, not the package that is installed
    assert str(tmp_path) in python("-c", "import stanadapt; print(stanadapt.__file__)").stdout
    marks = "not cmdstan and not soak"  # the tests that catch a bug may take long
    done = python("-m", "pytest", "-q", "-x", "-m", marks, f"tests/{bug.test}", "-k", bug.chosen)
    assert done.returncode == (1 if name else 0), done.stdout[-3000:]
