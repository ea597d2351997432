"""The page for authors: its samplers run, and each mistake gives one message with its code."""

import importlib
import inspect
import subprocess
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
from tests.helpers.authoring_page import SMALLEST_SAMPLER

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
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def changed(old, new):
    assert PAGE.count(old) == 1, old
    return PAGE.replace(old, new)


def test_the_page_is_short():
    for source, most in ((SMALLEST_SAMPLER, 45), (PAGE, 90)):
        assert 20 < len([line for line in source.splitlines() if line.strip()]) < most


@pytest.mark.thorough
def test_the_sampler_of_the_page_draws_and_reports(tmp_path):
    body = FIT.format(name="barker") + '\n    print(len(fit.attrs["final_step_size"]))'
    mean, sd, chains = map(float, run(tmp_path, "barker", PAGE, body).split())
    # 4000 draws with an autocorrelation time of about 5: standard errors .07 and .05
    assert abs(mean - 3.0) < 0.35
    assert abs(sd - 2.0) < 0.25
    assert chains == 2


@pytest.mark.slow
def test_the_smallest_sampler_of_the_page_draws(tmp_path):
    printed = run(tmp_path, "unit_walk", SMALLEST_SAMPLER, FIT.format(name="unit_walk"))
    mean, sd = map(float, printed.split())
    # 4000 draws with an autocorrelation time below 15: standard errors .12 and .09
    assert abs(mean - 3.0) < 0.6
    assert abs(sd - 2.0) < 0.45


@pytest.mark.slow
def test_the_sampler_of_the_page_passes_the_checks(tmp_path):
    body = 'report = sa.check_sampler("barker")\n    print(report.passed, len(report.problems))'
    assert run(tmp_path, "barker", PAGE, body) == "True 8\n"


@pytest.mark.slow
def test_future_annotations_are_read(tmp_path):
    source = PAGE.replace("\nfrom typing", "\nfrom __future__ import annotations\nfrom typing", 1)
    assert "nan" not in run(tmp_path, "barker", source, FIT.format(name="barker"))


@pytest.mark.thorough
def test_a_setting_out_of_range_is_an_error_without_a_code_of_the_author(tmp_path):
    body = 'sa.check_sampler("barker", step_size=-2)'
    printed = run(tmp_path, "barker", PAGE, body)
    assert printed.startswith("settings: ")
    assert printed.endswith("[invalid_setting]\n")
    assert "step_size" in printed
    assert "-2" in printed


def test_a_note_needs_no_code_of_the_author():
    note = authoring.note("Few moves.")
    assert (note, note.code) == ("Few moves.", "sampler_note")
    assert all_codes()[note.code].kind == NOTE


# mistake: name of the file, source, code of the error, facts in the message
MISTAKES = (
    {
        "a name that is taken": ("rwm", PAGE, "sampler_name_taken", ["stanadapt.samplers.rwm"]),
        "a name with another meaning": ("auto", PAGE, "sampler_name_taken", ["'auto'", "rename"]),
        "a setting that may be None": (
            "barker",
            changed("step_size: Positive = 0.5", "step_size: float | None = None"),
            "invalid_sampler_tuple",
            ["Settings.step_size", "float | None"],
        ),
        "a setting that is text": (
            "barker",
            changed("step_size: Positive = 0.5", 'step_size: str = "large"'),
            "invalid_sampler_tuple",
            ["Settings.step_size", "IntEnum", "str"],
        ),
        "a type that cannot be resolved": (
            "barker",
            "from __future__ import annotations\n"
            + changed("step_size: Positive = 0.5", "step_size: Width = 0.5"),
            "invalid_sampler_tuple",
            ["Settings", "'Width'"],
        ),
        "no acceptance rate": (
            "barker",
            changed("    acceptance_rate: float\n", "    rate: float\n"),
            "invalid_sampler_tuple",
            ["Info", "acceptance_rate"],
        ),
        "no current point": (
            "barker",
            changed("    current: GradientPoint\n", "    point: GradientPoint\n"),
            "invalid_sampler_tuple",
            ["State", "current"],
        ),
        "a current point that is an array": (
            "barker",
            changed("    current: GradientPoint\n", "    current: np.ndarray\n"),
            "invalid_sampler_tuple",
            ["State.current", "position", "log_density", "ndarray"],
        ),
        "too few arguments": (
            "barker",
            changed("def step(density, settings, state, rng)", "def step(density, state, rng)"),
            "invalid_sampler_function",
            ["step", "4", "(density, settings, state, rng)", "3"],
        ),
        "not compiled": (
            "barker",
            changed("@jit\ndef adapt", "def adapt"),
            "invalid_sampler_function",
            ["adapt", "jit"],
        ),
        "coordinates that do not exist": (
            "barker",
            changed("register(__name__)", "register(__name__, standardize=True)"),
            "invalid_sampler_option",
            ["standardize", "'diagonal'", "True"],
        ),
        "a default of no setting": (
            "barker",
            changed(
                "register(__name__)",
                "register(__name__, when_standardized={'step': lambda n: 1.0})",
            ),
            "invalid_sampler_option",
            ["when_standardized", "step"],
        ),
        "a setting with the name of an argument": (
            "barker",
            changed("step_size: Positive = 0.5", "step_size: Positive = 0.5\n    seed: int = 1"),
            "invalid_sampler_tuple",
            ["seed", "argument of `sample`"],
        ),
        "a setting with the name of a family's argument": (
            "barker",
            changed(
                "step_size: Positive = 0.5", "step_size: Positive = 0.5\n    prior_data: int = 1"
            ),
            "invalid_sampler_tuple",
            ["prior_data", "argument of `sample`"],
        ),
        "another name of a setting that is an argument": (
            "barker",
            changed(
                "register(__name__)", "register(__name__, setting_aliases={'thin': 'step_size'})"
            ),
            "invalid_sampler_tuple",
            ["thin", "argument of `sample`"],
        ),
        "gradients that are neither used nor not": (
            "barker",
            changed("register(__name__)", "register(__name__, uses_gradient='yes')"),
            "invalid_sampler_option",
            ["uses_gradient", "True, False or a function of settings", "'yes'"],
        ),
        "a default out of range": (
            "barker",
            changed("step_size: Positive = 0.5", "step_size: Positive = -0.5"),
            "invalid_sampler_tuple",
            ["the default: step_size must be positive", "-0.5"],
        ),
        "a preset out of range": (
            "barker",
            changed(
                "register(__name__)",
                "register(__name__, presets={'me2022': Preset({'target_accept': 57})})\n",
            ).replace("import numpy", "from stanadapt.engine.protocol import Preset\nimport numpy"),
            "invalid_sampler_tuple",
            ["preset me2022: target_accept must be between 0 and 1", "57"],
        ),
        "an alias of no setting": (
            "barker",
            changed("register(__name__)", "register(__name__, setting_aliases={'eps': 'step'})"),
            "invalid_sampler_option",
            ["setting_aliases names step"],
        ),
        "a setting without a comment": (
            "barker",
            changed("  # its initial value", ""),
            "invalid_sampler_tuple",
            ["Settings.step_size", "comment"],
        ),
        "stages that are not used": (
            "barker",
            "from stanadapt.engine.authoring import Stage, Warmup\n"
            + changed(
                "def report", "LEARN = Warmup({'a': Stage('learning', 5)}, 'a')\n\ndef report"
            ),
            "invalid_warmup",
            ["the stages LEARN are not used", "warmup=LEARN"],
        ),
        "a fraction of an iteration": (
            "barker",
            changed("register(__name__)", "register(__name__, iter_warmup=1e3)"),
            "invalid_sampler_option",
            ["iter_warmup", "whole number", "1000.0"],
        ),
        "no iteration": (
            "barker",
            changed("register(__name__)", "register(__name__, iter_sampling=0)"),
            "invalid_sampler_option",
            ["iter_sampling", "at least 1", "0"],
        ),
    }
    | {
        f"a statistic {name}": (
            "barker",
            changed("    accepted: bool\n", f"    accepted: bool\n    {name}: float\n"),
            "invalid_sampler_tuple",
            [f"Info.{name}", fact],
        )
        for name, fact in (
            ("lp", "every result has it"),
            ("n_evaluations", "every result has it"),
            ("chain", "dimension"),
            ("draw", "dimension"),
        )
    }
    | {
        f"a range {range_}": (
            "barker",
            "from typing import Annotated\nfrom stanadapt.engine.authoring import Between\n"
            + changed("step_size: Positive", f"step_size: Annotated[float, Between({range_})]"),
            "invalid_sampler_tuple",
            ["Settings.step_size has the range", "(), [), (], []"],
        )
        for range_ in ("10, 2", "1, 1", "0, 1, '[['", "'0', 1", "0, 1, ''")
    }
    | {
        f"warm-up with {table}": (
            "barker",
            "from stanadapt.engine.authoring import Stage, Warmup\n"
            + changed("def report", f"warmup = {table}\n\ndef report").replace(
                "register(__name__)", "register(__name__, warmup=warmup)"
            ),
            "invalid_warmup",
            facts,
        )
        for table, facts in {
            "[Stage('tuning', 5)]": ["must be a Warmup", "got [Stage"],
            "Warmup([Stage('tuning', 5)], 'tune')": ["must be a Warmup", "got Warmup"],
            "Warmup({'tune': Stage('tuning', 5)}, 'tun')": ["first is 'tun'", "['tune']"],
            "Warmup({'tune': Stage('tuning', 5)}, '')": ["first is ''"],
            "Warmup({'a': Stage('tuning', 5), '': Stage('resting', 5)}, 'a')": ["another name"],
            "Warmup({'a': Stage('tuning', 5, then='b')}, 'a')": ["`then` of stage 'a' is 'b'"],
            "Warmup({'a': Stage('tuning', 5)}, 'a', without_room=0)": ["without_room is 0"],
            "Warmup({'a': Stage('tuning', 0)}, 'a')": [
                "length of stage 'a'",
                "at least 1",
                "got 0",
            ],
            "Warmup({'a': Stage('tuning', 5.0)}, 'a')": ["length of stage 'a'", "got 5.0"],
            "Warmup({'a': Stage('tuning', lambda left: left)}, 'a')": [
                "length of stage 'a'",
                "2 arg",
            ],
            "Warmup({'a': Stage('tuning', 5, learn=5)}, 'a')": ["learn of stage 'a'", "function"],
            "Warmup({'a': Stage('tuning', 5)}, 'a', lambda states: 0)": ["begin must take 3"],
        }.items()
    }
)


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
    name, source, code, facts = MISTAKES[mistake]
    error = refusal(name, source)
    assert (error.stage, error.code) == ("sampler", code)
    assert error.message.startswith(f"{name}: ")
    assert "\n" not in error.message
    assert [fact for fact in facts if fact not in error.message] == []


def test_all_arguments_of_sample_are_reserved():
    """The list is a copy: the engine does not import `sample`."""
    taken = {*inspect.signature(sa.sample).parameters, *family_options(), PRESET} - {"settings"}
    assert taken == {*ARGUMENTS, *START_OPTIONS, PRESET}


def test_names_are_taken_before_any_sampler_is_imported(tmp_path):
    printed = run(tmp_path, "rwm", PAGE)
    assert "the name is taken by the sampler of stanadapt.samplers.rwm" in printed


def test_all_mistakes_are_reported_at_once(refusal):
    source = changed("    acceptance_rate: float\n", "    rate: float\n").replace(
        "@jit\ndef adapt", "def adapt"
    )
    error = refusal("barker", source)
    assert error.code == "invalid_sampler"
    assert [line.partition(":")[0] for line in error.message.splitlines()] == ["barker"] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("total = 0.0", "total = x.mass", "'mass'"),
        ("z = -z", "z = -width", "'width'"),
    ],
)
def test_an_error_of_compilation_names_file_and_line(tmp_path, old, new, reason):
    source = changed(old, new)
    line = source[: source.index(new)].count("\n") + 1
    printed = run(tmp_path, "barker", source, FIT.format(name="barker"))
    assert printed.endswith("[sampler_not_compiled]\n")
    assert f"barker.py, line {line}: " in printed
    assert reason in printed
    assert printed.count("\n") == 1


def test_every_name_of_the_page_is_documented():
    for name in authoring.__all__:
        assert inspect.getdoc(getattr(authoring, name)), name


def test_an_author_may_declare_codes():
    assert authoring.Code is Code
