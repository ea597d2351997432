"""What samplers add to a result: checked before the first draw, or unable to cost the draws."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.engine import authoring
from stanadapt.engine.after_run import Findings, RunView
from stanadapt.runs.result import LEFT_OUT, report_of
from stanadapt.runs.run import Run
from stanadapt.samplers.tempering import Extended, ReferenceDistribution
from stanadapt.targets.pseudo_samples import empty_group, pseudo_group
from tests.helpers.codes import raises
from tests.helpers.driven_runs import setup_of

EXCLUDED = """
parameters { vector[2] x; }
transformed parameters { real weight = x[1]; matrix[2, 2] m = x * x'; }
model { x ~ normal(0, 1); }
generated quantities { real temperature = 1; }
"""
RUN = {"seed": 1, "chains": 2, "iter_warmup": 30, "iter_sampling": 30}
DRAWS = {"x": np.zeros((2, 5))}


def reported(after_run, taken=("posterior",)):
    return report_of("rwm", after_run, RunView(None, [], 0, {}), taken)


def test_excluded_quantities_collide_too_unless_there_is_no_group():
    """The group of pseudo-samples has it all the same, and its weights would be lost."""
    target = sa.Target(EXCLUDED, exclude="weight")
    extended = Extended(target, reference_distribution=ReferenceDistribution([0.0, 0.0], 2.0))
    with raises("reserved_variable", "weight"):
        sa.sample(extended, "rwm", save="pseudo", **RUN)
    code = EXCLUDED.replace("weight", "other")
    target = sa.Target(code)
    rehearsed = empty_group(target)
    made = pseudo_group(target, np.zeros((1, 1, 3, 2)), np.ones((1, 1, 3)), np.ones((1, 1, 3)))
    assert {n: x.shape[3:] for n, x in made.items()} == {
        n: x.shape[3:] for n, x in rehearsed.items()
    }
    assert list(rehearsed) == ["x", "other", "m", "temperature", "weight"]


def test_a_group_of_pseudo_samples_is_rehearsed(monkeypatch):
    monkeypatch.setattr(
        "stanadapt.runs.result.empty_group", lambda target: {"chain": np.zeros((1, 1, 1))}
    )
    target = sa.Target("parameters{real x;} model{x~normal(0,1);}")
    extended = Extended(target, reference_distribution=ReferenceDistribution([0.0], 2.0))
    with raises("result_refused"):
        setup_of(extended, "rwm", save="pseudo", **RUN)


@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), KeyboardInterrupt()])
def test_a_report_that_fails_leaves_the_rest(error):
    def after_run(view):
        raise error

    found = reported(after_run)
    assert not found.groups
    assert not found.attributes
    (note,) = found.messages
    assert note.code == "report_left_out"


WHOLE = Findings({"rate": 0.5}, ["said"], {"own": DRAWS})


@pytest.mark.parametrize(("returned", "fact"), [
    (None, "must return Findings(attributes={...}, messages=[...]), got NoneType"),
    ({"rate": 0.5}, "got dict"), (({}, [], {}), "got tuple"),
    (WHOLE._replace(attributes=None), "attributes must be a dict, got None"),
    (WHOLE._replace(groups=[DRAWS]), "groups must be a dict, got [{"),
    (WHOLE._replace(messages=None), "messages must be a list of texts, got [None]"),
    (WHOLE._replace(messages=["said", 0.5]), "messages must be a list of texts, got ['said', 0.5]"),
])  # fmt: skip
def test_what_is_no_report_is_left_out(returned, fact):
    found = reported(lambda view: returned)
    (note,) = found.messages
    assert (found.attributes, found.groups, note.code) == ({}, {}, "report_left_out")
    assert fact in note


@pytest.mark.parametrize("text", ["the step was small", authoring.note("the step was small")])
def test_one_text_is_one_message(text):
    """A text is a sequence too: of letters, each of which became a warning."""
    assert reported(lambda view: Findings(messages=text)).messages == [text]


@pytest.mark.parametrize(("groups", "lost"), [
    ({"posterior": DRAWS}, "posterior"), ({"a/b": DRAWS}, "a/b"),
    ({"own": {"chain": np.zeros((2, 5))}}, "own"),
    ({"own": {"x": np.array([[object()] * 5] * 2)}}, "own"),
])  # fmt: skip
def test_a_group_that_no_result_holds_is_left_out(groups, lost):
    found = reported(lambda view: Findings({"good": 1}, ["said"], {**groups, "fine": DRAWS}))
    assert set(found.groups) == {"fine"}
    assert found.attributes == {"good": 1}
    assert found.messages[0] == "said"
    assert repr(lost) in found.messages[1]


def test_an_attribute_of_the_package_is_not_overwritten():
    found = reported(lambda view: Findings({"seed": 7, "rate": 0.5}), taken=("posterior", "seed"))
    assert found.attributes == {"rate": 0.5}
    assert "'seed' is" in found.messages[0]


@pytest.mark.filterwarnings(r"ignore:.*\[report_left_out\]")
@pytest.mark.parametrize("returned", [None, {"of a": "user"}, Findings(attributes=None)])
def test_the_run_is_kept(tmp_path, returned):
    target = sa.Target("parameters{real x;} model{x~normal(0,1);}")
    setup = setup_of(target, "rwm", standardize=False, **RUN)
    sampler = setup.design.sampler._replace(report=lambda view: returned)
    fit = Run.begin(setup._replace(design=setup.design._replace(sampler=sampler))).finish()
    fit = sa.load(sa.save(fit, tmp_path / "a.nc"))
    assert results.dataset(fit, "posterior")["x"].shape == (2, 30)
    assert LEFT_OUT in str(fit.attrs["notes"])
