"""The page for authors: its samplers run, and each mistake gives one message with its code."""

import importlib
import inspect
import sys

import pytest

import stanadapt as sa
from stanadapt.engine import authoring
from stanadapt.engine.breaches import ARGUMENTS
from stanadapt.engine.protocol import PRESET
from stanadapt.engine.starts import START_OPTIONS
from stanadapt.errors import NOTE, Code, StanadaptError, all_codes
from stanadapt.runs.prepare import family_options
from tests.helpers.authoring_page import SAMPLER_OF_THE_PAGE as PAGE
from tests.helpers.authoring_page import SMALLEST_SAMPLER, changed
from tests.helpers.other_process import printed

RUN = """
import warnings
warnings.simplefilter("ignore")
import stanadapt as sa
try:
    import {name}
    {body}
except sa.StanadaptError as error:
    print(error)
"""
FIT = (
    'target = sa.Target("parameters {{ real x; }} model {{ x ~ normal(3, 2); }}", '
    'backend="stanli", show_progress=False)\n'
    '    fit = sa.sample(target, "{name}", chains=2, iter_warmup=300, iter_sampling=2000, seed=1, '
    "show_progress=False)\n"
    '    print(float(fit["posterior"]["x"].mean()), float(fit["posterior"]["x"].std()))'
)


def run(folder, name, source, body="pass"):
    """Write a sampler file, import it in another process, and return the output."""
    (folder / f"{name}.py").write_text(source)
    code = RUN.format(name=name, body=body)
    return printed(code, folder=folder)


def test_the_page_is_short_and_its_names_documented():
    for source, most in ((SMALLEST_SAMPLER, 45), (PAGE, 90)):
        assert 20 < len([line for line in source.splitlines() if line.strip()]) < most
    # the list is a copy: the engine does not import `sample`
    taken = {*inspect.signature(sa.sample).parameters, *family_options(), PRESET} - {"settings"}
    assert taken == {*ARGUMENTS, *START_OPTIONS, PRESET}
    for name in authoring.__all__:
        assert inspect.getdoc(getattr(authoring, name)), name
    assert authoring.Code is Code
    note = authoring.note("Few moves.")
    assert (note, note.code) == ("Few moves.", "sampler_note")
    assert all_codes()[note.code].kind == NOTE


@pytest.mark.thorough
def test_the_sampler_of_the_page_draws_reports_and_checks_its_settings(tmp_path):
    body = FIT.format(name="barker") + '\n    print(fit.attrs["final_step_size"].count(",") + 1)'
    body += '\n    sa.check_sampler("barker", step_size=-2)'
    values, chains, refused = run(tmp_path, "barker", PAGE, body).splitlines()
    mean, sd = map(float, values.split())
    # 4000 draws with an autocorrelation time of about 5: standard errors .07 and .05
    assert abs(mean - 3.0) < 0.35
    assert abs(sd - 2.0) < 0.25
    assert chains == "2"
    assert refused.startswith("settings: ")
    assert refused.endswith("[invalid_setting]")  # without a code of the author
    assert "step_size" in refused
    assert "-2" in refused


@pytest.mark.slow
def test_the_smallest_sampler_of_the_page_draws(tmp_path):
    values = run(tmp_path, "unit_walk", SMALLEST_SAMPLER, FIT.format(name="unit_walk"))
    mean, sd = map(float, values.split())
    # 4000 draws with an autocorrelation time below 15: standard errors .12 and .09
    assert abs(mean - 3.0) < 0.6
    assert abs(sd - 2.0) < 0.45


@pytest.mark.slow
def test_samplers_of_the_page_draw_and_pass_the_checks(tmp_path):
    body = 'report = sa.check_sampler("barker")\n    print(report.passed, len(report.problems))'
    assert run(tmp_path, "barker", PAGE, body) == "True 8\n"
    source = PAGE.replace("\nfrom typing", "\nfrom __future__ import annotations\nfrom typing", 1)
    assert "nan" not in run(tmp_path, "barker", source, FIT.format(name="barker"))


TUPLE, FUNCTION, OPTION, WARMUP = (
    f"invalid_{part}" for part in ("sampler_tuple", "sampler_function", "sampler_option", "warmup")
)
STEP, REGISTER, REPORT = "step_size: Positive = 0.5", "register(__name__)", "def report"
IMPORTS = """from __future__ import annotations
from stanadapt.engine.authoring import Stage, Warmup
from stanadapt.engine.protocol import Preset
"""
# mistake: code of the error, text of the page, other text, facts in the message
MISTAKES = {
    "a setting that may be None": (TUPLE, STEP, "step_size: float | None = None",
        "Settings.step_size", "float | None"),
    "a setting that is text": (TUPLE, STEP, 'step_size: str = "large"',
        "Settings.step_size", "IntEnum", "str"),
    "a type that cannot be resolved": (TUPLE, STEP, "step_size: Width = 0.5",
        "Settings", "'Width'"),
    "a default out of range": (TUPLE, STEP, "step_size: Positive = -0.5",
        "the default: step_size must be positive", "-0.5"),
    "a preset out of range": (TUPLE, REGISTER,
        "register(__name__, presets={'me2022': Preset({'target_accept': 57})})",
        "preset me2022: target_accept must be between 0 and 1", "57"),
    "a setting without a comment": (TUPLE, "  # its initial value", "",
        "Settings.step_size", "comment"),
    "no acceptance rate": (TUPLE, "    acceptance_rate: float\n", "    rate: float\n",
        "Info", "acceptance_rate"),
    "no current point": (TUPLE, "    current: GradientPoint\n", "    point: GradientPoint\n",
        "State", "current"),
    "a current point that is an array": (TUPLE, "    current: GradientPoint\n",
        "    current: np.ndarray\n", "State.current", "position", "log_density", "ndarray"),
    "no init": (FUNCTION, "def init(", "def my_init(", "define a function init(density, "),
    "no step": (FUNCTION, "def step(", "def my_step(", "define a function step(density, "),
    "no Info": (TUPLE, "class Info(", "class My(", "info must be a NamedTuple class, got None"),
    "too few arguments": (FUNCTION, "def step(density, settings, state, rng)",
        "def step(density, state, rng)", "step", "4", "(density, settings, state, rng)", "3"),
    "not compiled": (FUNCTION, "@jit\ndef adapt", "def adapt", "adapt", "jit"),
    "coordinates that do not exist": (OPTION, REGISTER, "register(__name__, standardize=True)",
        "standardize", "'diagonal'", "True"),
    "an option that does not exist": (OPTION, REGISTER, "register(__name__, standardise='no')",
        "no option 'standardise'", "Did you mean 'standardize'?"),
    "a default of no setting": (OPTION, REGISTER,
        "register(__name__, when_standardized={'step': lambda n: 1.0})",
        "when_standardized", "step"),
    "an alias of no setting": (OPTION, REGISTER,
        "register(__name__, setting_aliases={'eps': 'step'})", "setting_aliases names step"),
    "a setting with the name of an argument": (TUPLE, STEP, f"{STEP}\n    seed: int = 1",
        "seed", "argument of `sample`"),
    "a setting with the name of a family's argument": (TUPLE, STEP,
        f"{STEP}\n    prior_data: int = 1", "prior_data", "argument of `sample`"),
    "a setting named preset": (TUPLE, STEP, f"{STEP}\n    preset: int = 1",
        "preset", "argument of `sample`"),
    "another name of a setting that is an argument": (TUPLE, REGISTER,
        "register(__name__, setting_aliases={'thin': 'step_size'})",
        "thin", "argument of `sample`"),
    "stages that are not used": (WARMUP, REPORT,
        "LEARN = Warmup({'a': Stage('learning', 5)}, 'a')\n\ndef report",
        "the stages LEARN are not used", "warmup=LEARN"),
    "stages that are no table": (WARMUP, REGISTER, "register(__name__, warmup=[1])",
        "must be a Warmup", "got [1]"),
    "a name that is taken": ("sampler_name_taken", REGISTER, REGISTER, "stanadapt.samplers.rwm"),
    "a name with another meaning": ("sampler_name_taken", REGISTER, REGISTER, "'auto'", "rename"),
}  # fmt: skip
FILES = {"a name that is taken": "rwm", "a name with another meaning": "auto"}
STATISTICS = {"lp": "every result has it", "n_evaluations": "every result has it"}
for statistic, fact in (STATISTICS | {"chain": "dimension", "draw": "dimension"}).items():
    MISTAKES[f"a statistic {statistic}"] = (
        TUPLE, "    accepted: bool\n", f"    accepted: bool\n    {statistic}: float\n",
        f"Info.{statistic}", fact,
    )  # fmt: skip
for table, facts in {
    "[Stage('tuning', 5)], 'tune'": ["must be a Warmup", "got Warmup"],
    "{'tune': Stage('tuning', 5)}, 'tun'": ["first is 'tun'", "['tune']"],
    "{'tune': Stage('tuning', 5)}, ''": ["first is ''"],
    "{'a': Stage('tuning', 5), '': Stage('resting', 5)}, 'a'": ["another name"],
    "{'a': Stage('tuning', 5, then='b')}, 'a'": ["`then` of stage 'a' is 'b'"],
    "{'a': Stage('tuning', 5)}, 'a', without_room=0": ["without_room is 0"],
    "{'a': Stage('tuning', 0)}, 'a'": ["length of stage 'a'", "at least 1", "got 0"],
    "{'a': Stage('tuning', 5.0)}, 'a'": ["length of stage 'a'", "got 5.0"],
    "{'a': Stage('tuning', lambda left: left)}, 'a'": ["length of stage 'a'", "2 arguments"],
    "{'a': Stage('tuning', 5, learn=5)}, 'a'": ["learn of stage 'a'", "function"],
    "{'a': Stage('tuning', 5)}, 'a', lambda states: 0": ["begin must take 3"],
}.items():
    new = f"warmup = Warmup({table})\n\ndef report"
    MISTAKES[f"stages {table}"] = (WARMUP, REPORT, new, *facts)


@pytest.fixture
def refusal(tmp_path, monkeypatch):
    """Import a file as a user does; return the error with which it is not registered."""

    def imported(name, source):
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
        with pytest.raises(StanadaptError) as caught:
            importlib.import_module(name)
        return caught.value

    return imported


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_at_registration(refusal, mistake):
    code, old, new, *facts = MISTAKES[mistake]
    name = FILES.get(mistake, "barker")
    error = refusal(name, IMPORTS + changed((old, new)))
    assert (error.stage, error.code) == ("sampler", code)
    assert error.message.startswith(f"{name}: ")
    assert "\n" not in error.message
    assert [fact for fact in facts if fact not in error.message] == []


def test_names_are_taken_before_any_sampler_is_imported(tmp_path):
    assert "taken by the sampler of stanadapt.samplers.rwm" in run(tmp_path, "rwm", PAGE)


def test_all_mistakes_are_reported_at_once(refusal):
    source = changed(
        ("    acceptance_rate: float\n", "    rate: float\n"), ("@jit\ndef adapt", "def adapt")
    )
    error = refusal("barker", source)
    assert error.code == "invalid_sampler"
    assert [line.partition(":")[0] for line in error.message.splitlines()] == ["barker"] * 2
    two = "@jit\ndef adapt(density, settings, state, info, t, iter_warmup)"
    error = refusal("barker", changed(("class Info(", "class My("), (two, "def adapt(state)")))
    for line, fact in zip(error.message.splitlines(), ("info", "compiled", "6 arg"), strict=True):
        assert fact in line
