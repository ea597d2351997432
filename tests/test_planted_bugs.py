"""The registry-wide tests catch faults planted in a copy of the package.

The first six are those that a Metropolis correction, a lucky start or a loose tolerance
can hide. Slow: every copy is compiled anew.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FILES = [f"tests/test_{name}.py" for name in (
    "samplers", "kameleon", "noise", "nuts", "nuts_tree", "nuts_tuning", "hamiltonian",
)]  # fmt: skip
# name: (file, what stands there, what is planted, samplers that show it)
BUGS = {
    "gradient_sign": (
        "tests/targets.py",
        "g[0] = 2.0 - np.exp(x[0])",
        "g[0] = np.exp(x[0]) - 2.0",
        "derivative",
    ),
    "wrong_reverse_move": (
        "stanadapt/samplers/gad_mala.py",
        "m[i] = forward[i] + 0.5 * v[i]",
        "m[i] = forward[i]",
        "gad_mala and moments",
    ),
    "no_rejection": (
        "stanadapt/metropolis.py",
        "return np.exp(log_ratio)",
        "return 1.0",
        "rwm and moments",
    ),
    "adaptation_backwards": (
        "stanadapt/adaptation.py",
        "(acceptance_rate - target_accept) / target_accept",
        "(target_accept - acceptance_rate) / target_accept",
        "mala and adaptation and not gad",
    ),
    "adaptation_never_stops": (
        "stanadapt/driver.py",
        "adapting = warming_up or self.sampler.adapts_forever",
        "adapting = True",
        "frozen and rwm and not gad",
    ),
    "one_seed_for_all": (
        "stanadapt/plan.py",
        ".spawn(self.chains)",
        ".spawn(1) * self.chains",
        "one_start and rwm and not gad",
    ),
    "symmetric_proposal": (
        "stanadapt/kernel_proposal.py",
        "return log_ratio - 0.5 * squared_norm(noise)",
        "return 0.0 * log_ratio",
        "kameleon and invariant",
    ),
    "noise_counted_twice": (
        "stanadapt/points.py",
        "total += 0.5 * position[i] * position[i]",
        "total += 0.0 * position[i] * position[i]",
        "law_is_exact and rwm",
    ),
    "no_checks_across_the_halves": (
        "stanadapt/nuts_tree.py",
        "return not (going_on and other_first > 0.0 and other_last > 0.0)",
        "return not (whole_first > 0.0 and whole_last > 0.0)",
        "equals_the_recursion",
    ),
    "u_turn_at_one_end_only": (
        "stanadapt/nuts_tree.py",
        "whole_first > 0.0 and whole_last > 0.0 and one_first",
        "whole_last > 0.0 and one_first",
        "equals_the_recursion",
    ),
    "new_half_without_weight": (
        "stanadapt/nuts_tree.py",
        "gain > 0.0 or rng.random() < np.exp(gain)",
        "gain > 0.0 or rng.random() < 1.0",
        "leaves_the_target_alone",
    ),
    "metric_inverted": (
        "stanadapt/metric.py",
        "covariance[0, i] = np.sqrt(covariance[0, i])",
        "covariance[0, i] = 1.0 / np.sqrt(covariance[0, i])",
        "metric_is_the_inverse or shrunk_covariance",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", [*BUGS, None])
def test_planted_bug_is_caught(tmp_path, bug):
    """Status 1 means that tests ran and failed; without a bug they pass."""
    for folder in ("stanadapt", "tests", "stan_models"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__*__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    chosen = "rwm and not gad"
    if bug:
        file, right, wrong, chosen = BUGS[bug]
        path = tmp_path / file
        text = path.read_text()
        assert text.count(right) == 1, f"{right!r} is no longer in {file}: mend this list"
        path.write_text(text.replace(right, wrong))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "STANADAPT_CACHE": str(tmp_path)}

    def python(*arguments):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    # it is the copy that is tested, not the package that is installed
    assert str(tmp_path) in python("-c", "import stanadapt; print(stanadapt.__file__)").stdout
    done = python("-m", "pytest", "-q", *FILES, "-k", chosen)
    assert done.returncode == (1 if bug else 0), done.stdout[-3000:]
