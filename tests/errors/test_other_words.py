"""Words of other packages are answered with ours, in Python and in the shell."""

import inspect
import subprocess
import sys
import typing

import pytest

import stanadapt as sa
from stanadapt.cli.commands import LazyCommand
from stanadapt.engine.protocol import SamplerName
from stanadapt.engine.registry import find
from stanadapt.errors import in_our_words
from stanadapt.errors.other_words import option, table
from stanadapt.results.formats import FORMATS
from stanadapt.runs.choose_sampler import names_of_settings
from stanadapt.runs.prepare import family_options
from stanadapt.runs.stan_nuts.engine import METRICS
from stanadapt.runs.stan_nuts.stan_nuts import ENGINES
from stanadapt.samplers import registered
from stanadapt.samplers.variational.methods import METHODS
from stanadapt.targets.stan import backends
from tests.helpers.codes import raises
from tests.helpers.command_line import call
from tests.helpers.stan_target import shared_target

target = shared_target("parameters { real x; } model { x ~ normal(0, 1); }", backend="stanli")

FUNCTIONS = [name for name in sa.__all__ if inspect.isfunction(getattr(sa, name))]


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("draws", "iter_sampling"), ("tune", "iter_warmup"), ("cores", "parallel_chains"),
        ("iter", "iter_sampling"), ("warmup", "iter_warmup"), ("control", "adapt_delta"),
        ("random_seed", "seed"), ("initvals", "inits"), ("progressbar", "show_progress"),
        ("nwalkers", "chains"), ("nsteps", "iter_sampling"), ("initial_state", "inits"),
        ("maxdepth", "max_treedepth"), ("iter_samplng", "'iter_sampling'"),
    ],
)  # fmt: skip
def test_in_python(target, word, ours):
    with raises("unknown_argument", f"Did you mean {ours}?", word):
        sa.sample(target, **{word: 1})


@pytest.mark.parametrize(("words", "answer"), [
    (["--adapt-delta", "0.9"], "--set adapt_delta=VALUE"), (["--draws", "9"], "--iter-sampling"),
    (["--tune=9"], "--iter-warmup"), (["--cores", "2"], "--parallel-chains"),
    (["-s", "auto", "nuts"], "--sampler auto,nuts"),
])  # fmt: skip
def test_in_the_shell(words, answer):
    printed = call("sample", "neal", *words, status=2)
    assert answer in " ".join(printed.replace("│", " ").split())


def test_commands_that_are_misspelled_or_meant_otherwise():
    for command, named in (("compare", True), ("sample", False)):
        printed = " ".join(call(command, "one.nc", "two.nc", status=2).replace("│", " ").split())
        assert ("`stanadapt table` and `summary` compare saved fits" in printed) is named
    assert "'sample'" in call("sampel", status=2)
    assert "--iter-sampling" in call("sample", "neal", "--iter-samplng", "9", status=2)


def test_other_functions_answer_too():
    for function, word, answer in (
        (sa.Target, "stan_file", "Target has no argument named 'stan_file'. Did you mean program?"),
        (sa.Target, "stanc_options", "Did you mean include_paths?"),
        (sa.Target, "chains", "Did you mean chains of sample?"),
        (sa.summary, "probs", "Did you mean probabilities?"),
        (sa.stan_nuts, "draws", "Did you mean iter_sampling?"),
        (sa.compare, "pars", "Did you mean var_names?"),
        (sa.load, "pars", "Did you mean exclude of Target?"),
        (sa.save, "overwrit", "Did you mean 'overwrite'?"),
        (sa.load, "output_dir", "Did you mean run of sample?"),
        (sa.diagnose, "adapt_delta", "Did you mean adapt_delta of sample?"),
    ):
        with raises("unknown_argument", answer):
            function(**{word: 1})
    takes = {name: inspect.getfullargspec(inspect.unwrap(getattr(sa, name))) for name in FUNCTIONS}
    fixed = [name for name in FUNCTIONS if not takes[name].varkw]  # others check what they pass on
    assert {"report", "resume", "expectations"} <= set(fixed)
    for name in fixed:
        with raises("unknown_argument", f"{name} has no argument named 'nonsense'"):
            getattr(sa, name)(nonsense=1)


def test_a_misspelled_function_is_answered_by_python():
    run = [sys.executable, "-c", "import stanadapt as sa; sa.sampel"]
    assert "Did you mean: 'sample'?" in subprocess.run(run, capture_output=True, text=True).stderr


def test_names_and_settings(target):
    with raises("unknown_sampler", "Did you mean 'nuts'?"):
        sa.sample(target, "NUTS")
    with raises("unknown_sampler", "draw a fit with each"):
        sa.sample(target, "auto nuts")
    with raises("not_a_target", "Density(function, dim)"):
        sa.sample(lambda x: -x @ x)
    with raises("unknown_setting", "Did you mean 'adapt_delta'?"):
        find("nuts", adapt_delt=0.9)
    with raises("unknown_setting", "target_accept", "preset", "learning_rate"):
        find("gad_mala", none=0.9)


def test_editors_complete_the_names_that_exist():
    def choices(function, argument):
        hint = typing.get_type_hints(function)[argument]
        every = [hint, *typing.get_args(hint)]
        (found,) = (each for each in every if typing.get_origin(each) is typing.Literal)
        return set(typing.get_args(found))

    ours = {name for name, each in registered().items() if each.init.__module__.startswith("stan")}
    assert set(typing.get_args(SamplerName)) >= {"auto", *ours}
    assert choices(sa.sample, "sampler") == set(typing.get_args(SamplerName))
    assert choices(sa.Target.__init__, "backend") == {"auto", *backends.BACKENDS}
    assert choices(sa.stan_nuts, "backend") == {"auto", *ENGINES}
    assert choices(sa.stan_nuts, "metric") == set(METRICS)
    assert choices(sa.approximate, "method") == set(METHODS)
    assert choices(sa.save, "format") == set(FORMATS)


def test_ours_exist():
    """Each answer is an argument, a setting of a sampler that runs NUTS, or an option."""
    arguments = {*inspect.signature(sa.sample).parameters, *family_options()}
    settings = names_of_settings("nuts") | names_of_settings("auto")
    assert {"adapt_delta", "max_treedepth"} <= set(inspect.signature(sa.stan_nuts).parameters)
    options = {flag for each in LazyCommand("sample").load().params for flag in each.opts}
    for row in table():
        if row.get("setting"):
            assert row["here"] in settings
        elif "of" in row:
            assert row["here"] in inspect.signature(getattr(sa, row["of"])).parameters
        else:
            assert row["here"] in arguments
            assert option(row) in options
    assert in_our_words("seed") == in_our_words("nothing like it") == ""
