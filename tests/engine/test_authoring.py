"""The door for authors: the sampler of the page runs, and each mistake gives one sentence."""

import importlib
import inspect
import re
import subprocess
import sys

import pytest

from stanadapt.engine import authoring
from stanadapt.errors import StanadaptError
from tests.helpers.authoring_page import SAMPLER_OF_THE_PAGE as PAGE

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
    """Write a sampler file, import it in a process of its own; return what that printed."""
    (folder / f"{name}.py").write_text(source)
    code = RUN.format(name=name, body=body)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def changed(old, new):
    assert PAGE.count(old) == 1, old
    return PAGE.replace(old, new)


def test_the_page_is_short():
    assert len([line for line in PAGE.splitlines() if line.strip()]) < 90


def test_the_sampler_of_the_page_draws(tmp_path):
    mean, sd = map(float, run(tmp_path, "barker", PAGE, FIT.format(name="barker")).split())
    # 4000 draws with an autocorrelation time of about 5: standard errors .07 and .05
    assert abs(mean - 3.0) < 0.35
    assert abs(sd - 2.0) < 0.25


@pytest.mark.slow
def test_the_sampler_of_the_page_passes_the_checks(tmp_path):
    body = 'print(sa.check_sampler("barker", show=False).to_csv())'
    report = run(tmp_path, "barker", PAGE, body).strip().splitlines()[1:]
    assert len(report) == 7
    assert all(",True," in line for line in report), report


def test_future_annotations_are_read(tmp_path):
    source = PAGE.replace("\nfrom typing", "\nfrom __future__ import annotations\nfrom typing", 1)
    assert "nan" not in run(tmp_path, "barker", source, FIT.format(name="barker"))


MISTAKES = {
    "a name that is taken": (
        "rwm",
        PAGE,
        r"rwm: the name is taken by the sampler of stanadapt\.samplers\.rwm.*rename the file\.",
    ),
    "a setting that may be None": (
        "barker",
        changed("step_size: float = 0.5", "step_size: float | None = None"),
        r"barker: Settings\.step_size is declared as float \| None, but compiled code takes one",
    ),
    "a setting that is text": (
        "barker",
        changed("step_size: float = 0.5", 'step_size: str = "large"'),
        r"barker: Settings\.step_size must be float, int, bool or an IntEnum, not str\.",
    ),
    "a type that cannot be resolved": (
        "barker",
        "from __future__ import annotations\n"
        + changed("step_size: float = 0.5", "step_size: Width = 0.5"),
        r"the types of Settings cannot be resolved \(name 'Width' is not defined\)",
    ),
    "no acceptance rate": (
        "barker",
        changed("    acceptance_rate: float\n", "    rate: float\n"),
        r"barker: Info must have a field acceptance_rate: float",
    ),
    "no current point": (
        "barker",
        changed("    current: GradientPoint\n", "    point: GradientPoint\n"),
        r"barker: State must have a field current",
    ),
    "a current point that is an array": (
        "barker",
        changed("    current: GradientPoint\n", "    current: np.ndarray\n"),
        r"barker: State\.current must be a NamedTuple with position and log_density, not ndarray\.",
    ),
    "too few arguments": (
        "barker",
        changed("def step(density, settings, state, rng)", "def step(density, state, rng)"),
        r"barker: step must take 4 arguments \(density, settings, state, rng\), but takes 3",
    ),
    "not compiled": (
        "barker",
        changed("@jit\ndef adapt", "def adapt"),
        r"barker: adapt must be compiled: decorate it with jit\.",
    ),
    "coordinates that there are not": (
        "barker",
        changed("adapt=adapt,\n", "adapt=adapt, standardize=True,\n"),
        r"barker: standardize must be 'full', 'diagonal' or 'no', got True\.",
    ),
    "a default of no setting": (
        "barker",
        changed("adapt=adapt,\n", "adapt=adapt, when_standardized={'step': lambda n: 1.0},\n"),
        r"barker: when_standardized names step, which is no field of Settings\.",
    ),
}


@pytest.fixture
def refusal(tmp_path, monkeypatch):
    """Import a file as a user does; return the error with which it is not registered."""

    def imported(name, source):
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
        with pytest.raises(StanadaptError) as caught:
            importlib.import_module(name)
        return str(caught.value)

    return imported


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_at_registration(refusal, mistake):
    name, source, sentence = MISTAKES[mistake]
    message = refusal(name, source)
    assert re.match(f"sampler: .*{sentence}", message), message
    assert "\n" not in message


def test_all_mistakes_are_reported_at_once(refusal):
    source = changed("    acceptance_rate: float\n", "    rate: float\n").replace(
        "@jit\ndef adapt", "def adapt"
    )
    assert refusal("barker", source).count("barker: ") == 2


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("total = 0.0", "total = x.mass", "Unknown attribute 'mass'"),
        ("z = -z", "z = -width", "name 'width' is not defined"),
    ],
)
def test_what_does_not_compile_names_file_and_line(tmp_path, old, new, reason):
    source = changed(old, new)
    line = source[: source.index(new)].count("\n") + 1
    printed = run(tmp_path, "barker", source, FIT.format(name="barker"))
    assert "barker does not compile" in printed
    assert f"barker.py, line {line}: " in printed
    assert reason in printed
    assert printed.count("\n") == 1


def test_every_name_of_the_door_is_documented():
    for name in authoring.__all__:
        assert inspect.getdoc(getattr(authoring, name)), name
