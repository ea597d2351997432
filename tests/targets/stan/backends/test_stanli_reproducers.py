"""Five kinds of stanli's silent faults: each exists, and is harmless with the guards.

Otherwise the tests would prove nothing. If a release of stanli fixes a fault, its row fails.
"""

import pytest

import stanadapt as sa
from tests.fuzz import program_runner
from tests.helpers import stanli_reproducers
from tests.helpers.stanli_reproducers import REPRODUCERS


@pytest.fixture(scope="module", params=[True, False], ids=["with guards", "without guards"])
def verdicts(request):
    """Verdicts on all of them."""
    verdicts = program_runner.run(
        f"{stanli_reproducers.__name__}:reproducer", range(len(REPRODUCERS)), request.param
    )
    return request.param, dict(zip(REPRODUCERS, verdicts, strict=True))


@pytest.mark.thorough
@pytest.mark.parametrize("name", REPRODUCERS)
def test_each_fault_exists_and_is_guarded_against(verdicts, name):
    guards, by_name = verdicts
    expected, verdict = REPRODUCERS[name], by_name[name]
    assert verdict.outcome == (expected.with_guards if guards else expected.without), verdict
    if not guards:
        assert verdict.reason == expected.reason
    elif expected.with_guards == "refused":
        assert "control flow may depend on parameters" in verdict.reason


@pytest.mark.cmdstan
@pytest.mark.soak
@pytest.mark.parametrize("name", REPRODUCERS)
def test_stan_itself_agrees(name):
    """For programs that the guards refuse, only this shows that stanli is at fault."""
    program = REPRODUCERS[name]
    target = sa.Target(program.code, program.data, backend="cmdstan")
    assert program_runner.verdict(program, 0, target.model).outcome == "right"
