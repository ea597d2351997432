"""Random programs: those that the guards of the embedded backend admit are right.

The programs and the oracle are those of `random_programs`. stanli runs in a separate process
(`program_runner`), so that a crash is a failure that names its seed.
"""

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

import stanadapt as sa
from tests.fuzz import program_runner
from tests.fuzz.random_programs import NESTED, batch, branching_program, random_program
from tests.helpers.repository import ROOT

PROGRAMS = "tests.fuzz.random_programs"
PLAIN, BRANCHING = f"{PROGRAMS}:random_program", f"{PROGRAMS}:branching_program"
NESTED_LOOPS, NESTED_NUMBERS = f"{PROGRAMS}:nested_program", range(0, len(NESTED), 5)
# Seeds that stanli 0.24.0 gets wrong without the guards; the first six silently, the last two with
# an exception. If the generator changes, these are other programs: find new seeds with
# `python -m tests.fuzz --no-guards`; seeds that end in 7, 8 or 9 are branching programs.
WRONG_PLAIN = (59, 149, 185, 378, 577, 601, 42, 361)
WRONG_BRANCHING = (3, 18, 47, 91, 152, 46)  # silently


def judge(factory, numbers, guards=True):
    """Count the outcomes, and return the verdicts on programs that the guards must not admit."""
    verdicts = list(program_runner.run(factory, numbers, guards))
    faults = [verdict for verdict in verdicts if verdict.outcome in ("wrong", "crashed")]
    return Counter(verdict.outcome for verdict in verdicts), faults


@pytest.mark.parametrize("seed", range(12))
def test_the_oracle_differentiates_its_own_values(seed):
    """For branching programs too: no branch lies within the step."""
    program = random_program(seed, parameter_branches=seed % 2 == 1)
    (position,) = program.positions(1)
    _, gradient = program.value_and_gradient(position)
    direction = np.random.default_rng(seed).standard_normal(program.dim)
    values = [program.value_and_gradient(position + h * direction)[0] for h in (1e-5, -1e-5)]
    assert (values[0] - values[1]) / 2e-5 == pytest.approx(gradient @ direction, rel=1e-6)


def test_the_programs_contain_all_constructs():
    plain = "\n".join(random_program(seed).code for seed in range(100))
    for text in (
        "while (", "break;", "continue;", "} else {", " in x)", " in 2:N)", "[order]", "[order[",
        "log_softmax(", "cumulative_sum(", "reverse(", "append_row(", "cauchy(", "poisson_log(",
        "bernoulli_logit_lpmf(", "log_mix(", " ~ ", "functions {", "_lpdf(real", "Q[, ", "n += 1;",
    ):  # fmt: skip
        assert text in plain, text
    branching = "\n".join(branching_program(seed).code for seed in range(100))
    for text in ("if (a > 0.137)", "while (square(e1) > 0.19", "(a > 0.137 ? "):
        assert text in branching, text
        assert text not in plain, text


@pytest.mark.slow
@pytest.mark.parametrize(("factory", "numbers", "right", "refused"), [
    (PLAIN, range(150), 110, range(40)),
    (BRANCHING, range(50), 5, range(26, 45)),
    (NESTED_LOOPS, NESTED_NUMBERS, 50, [0]),
    pytest.param(PLAIN, range(1000, 1700), 500, range(200), marks=pytest.mark.soak),
    pytest.param(BRANCHING, range(1000, 1300), 40, range(260), marks=pytest.mark.soak),
])  # fmt: skip
def test_admitted_programs_are_right(factory, numbers, right, refused):
    outcomes, faults = judge(factory, numbers)
    assert not faults
    assert outcomes["right"] > right
    assert outcomes["refused"] in refused


@pytest.mark.slow
@pytest.mark.parametrize(("factory", "seeds"), [(PLAIN, WRONG_PLAIN), (BRANCHING, WRONG_BRANCHING)])
def test_the_harness_detects_the_faults_that_the_guards_prevent(factory, seeds):
    outcomes, faults = judge(factory, seeds, guards=False)
    assert [verdict.number for verdict in faults] == list(seeds), outcomes
    assert {verdict.outcome for verdict in faults} == {"wrong"}
    _, faults = judge(factory, seeds)
    assert not faults


def test_the_harness_detects_wrong_nested_loops():
    outcomes, faults = judge(NESTED_LOOPS, NESTED_NUMBERS, guards=False)
    assert outcomes["wrong"] > 3
    assert outcomes["right"] > 50
    assert {NESTED[verdict.number].outer for verdict in faults} == {"rows"}


@pytest.mark.slow
@pytest.mark.parametrize(("options", "status"), [([], 0), (["--no-guards"], 1)])
def test_the_fuzzer_names_wrong_seeds(options, status):
    assert WRONG_PLAIN[2] == 185
    command = [sys.executable, "-m", "tests.fuzz", "--programs", "10", "--seed", "180", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    assert ("seed 185 wrong" in done.stdout) == bool(status)
    assert ("target +=" in done.stdout) == bool(status)


@pytest.mark.cmdstan
@pytest.mark.soak
def test_native_backend_agrees_with_the_oracle():
    """Stan itself checks the oracle, also for programs that the guards refuse."""
    programs = [random_program(seed, parameter_branches=seed % 2 == 1) for seed in range(6)]
    code = batch(programs)
    for which, program in enumerate(programs, 1):
        target = sa.Target(code, data={**program.data, "which": which}, backend="cmdstan")
        verdict = program_runner.verdict(program, program.seed, target.model)
        assert verdict.outcome == "right", verdict
