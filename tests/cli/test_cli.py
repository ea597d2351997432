"""The command line: every command, and one-line messages in place of tracebacks."""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import stanadapt as sa
from stanadapt import results
from stanadapt.cli import compare as compare_command
from stanadapt.cli import draw, terminal
from stanadapt.cli.commands import app, entries
from stanadapt.engine.settings import as_chosen, declared
from stanadapt.errors import NOTE, STAGES, VERDICT, StanadaptError, all_codes
from stanadapt.samplers import registered
from stanadapt.targets import doctor
from stanadapt.targets.stan import bundled
from tests.helpers import tiny_posteriordb
from tests.helpers.codes import raises
from tests.helpers.command_line import PROGRAM, TINY, call, refused

# others hand on what they do not know
COMMANDS = [name for name, entry in entries().items() if not entry.forwards]


def test_help_version_and_an_unknown_command():
    printed = call("--help")
    for command in COMMANDS:
        assert command in printed
    assert CliRunner().invoke(app, []).output.split() == printed.split()  # without a command
    assert "'stanadapt[learn]'" in call("train-nice", "--help")
    assert call("--version") == f"stanadapt {version('stanadapt')}"
    done = CliRunner().invoke(app, ["resample"])
    assert done.exit_code == 2
    assert "resample" in done.output


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command(command):
    printed = call(command, "--help")
    assert printed == call(command, "-h")
    assert "Usage" in printed
    assert command in printed


def test_samplers():
    printed = call("samplers")
    for name, sampler in registered().items():
        assert name in printed
        for setting in sampler.settings._fields:
            assert f"{setting}=" in printed
    assert "'nuts'" in call("samplers", "nutz", status=1)
    assert "'nuts'" not in call("samplers", "qqqq", status=1)


@pytest.mark.parametrize("name", list(registered()))
def test_one_sampler(name):
    printed = call("samplers", name)
    sampler = registered()[name]
    for setting, default in as_chosen(sampler.settings()).items():
        assert f"{setting}={default}" in printed
    for setting in declared(sampler.settings).values():
        assert f" {setting.values} {setting.text}" in printed
    assert "References" in printed


def test_models_and_doctor():
    """Descriptions use the width of a terminal."""
    printed = CliRunner().invoke(app, ["models"], env={"COLUMNS": "80"}).output
    for program in bundled.available().values():
        assert " ".join(program.description.split())[:50] in printed
        assert all(name in printed for name in (program.name, *program.data))
    printed = call("doctor")
    for word in ("stanadapt", "numba", "cache", "auto", "stanli", "cmdstan", "CmdStan", "compiler"):
        assert word in printed


def test_doctor_reports_a_backend_that_fails_its_test(monkeypatch):
    from stanadapt.targets.stan.backends import stanli

    usable = [line for line in doctor.lines() if "stanli" in line]
    monkeypatch.setattr(stanli, "SWITCHES", ())
    assert [line for line in doctor.lines() if "stanli" in line] != usable


def test_codes_are_listed_by_kind_and_unknown_ones_answered():
    printed = call("explain")
    for name, code in all_codes().items():
        assert f"{name}: {' '.join(code.meaning.split())}" in printed
    kinds = [kind for kind in (*STAGES, VERDICT, NOTE) if kind in printed]
    assert {code.kind for code in all_codes().values()} <= set(kinds)
    refused("unknown_code", "explain", "out_of_rang", facts=["'out_of_rang'", "'out_of_range'"])
    assert "'out_of_range'" not in refused("unknown_code", "explain", "qqqq")


@pytest.mark.parametrize("written", ["out_of_range", "[out_of_range]", "OUT_OF_RANGE"])
def test_a_code_is_explained(written):
    code = all_codes()["out_of_range"]
    printed = call("explain", written)
    for text in (code, code.kind, code.meaning, code.cure):
        assert text in printed


def test_sample_files(files):
    printed = call(
        "sample", "my.stan", "--data", "my.json", "--out", "deep/out.nc", "--save-warmup",
        "--sampler", "gad_mala", "--set", "initial_scale=1.5", "--set", "diagonal=true", *TINY,
    )  # fmt: skip
    assert "deep/out.nc" in printed
    assert "bulk ESS" in printed
    fit = sa.load(files / "deep" / "out.nc")
    assert results.dataset(fit, "posterior")["x"].shape == (2, 40)
    assert results.dataset(fit, "warmup_posterior")["x"].shape == (2, 30)
    settings = json.loads(fit.attrs["settings"])
    assert (settings["initial_scale"], settings["diagonal"]) == (1.5, True)
    assert fit.attrs["model"] == "my"


@pytest.mark.parametrize(("arguments", "size"), [
    (["gaussian", "-d", "two_dim"], 2), (["neal", "--data", "three.json"], 3), (["neal"], 100),
])  # fmt: skip
def test_sample_a_bundled_program(files, arguments, size):
    """On its own or other data; a folder of the same name does not hide it."""
    (files / "three.json").write_text('{"N": 3}')
    (files / "neal").mkdir()
    call("sample", *arguments, "-s", "gad_mala", *TINY)
    fit = sa.load("fit.nc")
    assert results.dataset(fit, "posterior")["x"].shape == (2, 40, size)
    assert fit.attrs["model"] == arguments[0]


def test_the_command_gives_the_same_draws_as_the_function(files):
    call("sample", "my.stan", "-d", "my.json", "--thin", "4", "--inits", "0", *TINY)
    target = sa.Target("my.stan", "my.json")
    with pytest.warns(sa.ConvergenceWarning):
        ours = sa.sample(
            target, chains=2, iter_warmup=30, iter_sampling=40, thin=4, inits=0, seed=1,
        )  # fmt: skip
    np.testing.assert_array_equal(
        results.dataset(sa.load("fit.nc"), "posterior")["x"],
        results.dataset(ours, "posterior")["x"],
    )


@pytest.mark.thorough
@pytest.mark.parametrize(("option", "kind"), [([], "diagonal"), (["--no-standardize"], "no")])
def test_standardized_coordinates_can_be_switched_off(files, option, kind):
    run = [*TINY, "--iter-warmup", "60", "--sampler", "mala", "--out", "out.nc"]
    call("sample", "my.stan", "--data", "my.json", *run, *option)
    assert sa.load(files / "out.nc").attrs["standardized"].split(":")[0] == kind


def test_straightening_and_its_opposite_are_refused(files):
    both = ["--straighten", "--no-standardize"]
    refused("options_conflict", "sample", "my.stan", "-d", "my.json", *TINY, *both, facts=both)
    refused(
        "cannot_standardize", "sample", "my.stan", "-d", "my.json", *TINY, "--straighten",
        facts=["whitened_hmc"],
    )  # fmt: skip


def test_files_of_inits_and_includes(files):
    (files / "inits.json").write_text('{"x": 2.5}')
    call(
        "sample", "my.stan", "-d", "my.json", "--inits", "inits.json", "--iter-warmup", "0",
        "--iter-sampling", "2", "--chains", "1", "-s", "gad_mala", "--set", "initial_scale=1e-9",
        "--quiet",
    )  # fmt: skip
    x = results.dataset(sa.load("fit.nc"), "posterior")["x"].values
    assert x[0, 0] == pytest.approx(2.5, abs=1e-6)
    (files / "lib").mkdir()
    (files / "lib" / "f.stan").write_text("real twice(real x) { return 2 * x; }\n")
    code = "functions {\n#include f.stan\n}\n" + PROGRAM.replace("m, 1", "twice(m), 1")
    (files / "inc.stan").write_text(code)
    call("sample", "inc.stan", "-d", "my.json", "--include", "lib", *TINY, "--force")
    assert sa.load("fit.nc").attrs["model"] == "inc"


def test_warnings_are_notes_and_progress_is_plain_lines(files):
    (files / "q.stan").write_text(
        "parameters { real x; } model { x ~ normal(0, 1); }\n"
        "generated quantities { real z = normal_rng(0, x); }\n"
    )
    printed = call("sample", "q.stan", "-s", "gad_mala", "--set", "initial_scale=1.5", *TINY)
    assert "note: " in printed
    assert "normal_rng" in printed
    assert "UserWarning" not in printed
    assert ".py:" not in printed
    tiny = [flag for flag in TINY if flag != "--quiet"]
    printed = call("sample", "my.stan", "-d", "my.json", *tiny, "--force")
    assert "70/70" in printed
    assert "\x1b" not in printed


@pytest.mark.thorough
def test_warm_starts_and_comparisons_with_stans_nuts(files):
    lengths = ["--iter-warmup", 40, "--iter-sampling", 40, "--chains", 2, "-q"]
    call("sample", "my.stan", "-d", "my.json", "-s", "rwm", "-o", "rwm.nc", *lengths)
    again = ["sample", "my.stan", "-d", "my.json", "-s", "kameleon", *lengths]
    call(*again, "--warm-start", "rwm.nc", "-o", "kameleon.nc")
    assert sa.load("kameleon.nc").attrs["warm_start_draws"] == 80
    assert "none.nc" in call(*again, "--warm-start", "none.nc", "-o", "other.nc", status=1)
    call("compare", "neal", "-s", "nuts,rwm", "--stan-nuts", "stanli", "-o", "r", *TINY)
    table = pd.read_csv(files / "r" / "comparison.csv", index_col="fit")
    assert list(table.index) == ["stan_nuts", "nuts", "rwm"]
    assert list(table["z_mean"].isna()) == [True, False, False]
    assert "engine" in sa.load(files / "r" / "stan_nuts.nc").attrs
    assert "engine" not in sa.load(files / "r" / "nuts.nc").attrs


def test_the_default_sampler_reports_its_metric(files):
    printed = call("sample", "neal", "--seed", "1", "--quiet")
    assert "whitened_hmc: whitened_hmc" not in printed
    assert "whitened_hmc: " in printed
    assert "diagonal" in printed
    assert sa.load("fit.nc").attrs["verdict"] == "fine"


def test_compare(files):
    printed = call(
        "compare", "my.stan", "-d", "my.json", "-s", "gad_mala, rwm", "--stan-nuts", "stanli",
        "--out", "results", *TINY,
    )  # fmt: skip
    for word in ("bulk ESS", "ESS/grad", "z mean", "gad_mala", "rwm", "nuts"):
        assert word in printed
    folder = files / "results"
    assert {p.name for p in folder.iterdir()} == {
        "gad_mala.nc", "rwm.nc", "nuts.nc", "comparison.csv",
    }  # fmt: skip
    table = pd.read_csv(folder / "comparison.csv", index_col="fit")
    assert list(table.index) == ["nuts", "gad_mala", "rwm"]
    assert np.isfinite(table.loc["rwm", "z_mean"])
    assert sa.load(folder / "nuts.nc").attrs["sampler"] == "nuts"
    assert results.dataset(sa.load(folder / "rwm.nc"), "posterior")["x"].shape == (2, 40)


@pytest.mark.parametrize("lengths", [{}, {"iter_warmup": 70, "iter_sampling": 90}])
def test_compare_gives_stan_nuts_the_same_lengths(lengths):
    plan = {"stan_nuts": "stanli", "chains": 2, **dict.fromkeys(compare_command.LENGTHS), **lengths}
    runs = compare_command.runs_of("a target", {"rwm": {}}, ["nuts"], plan)
    given = runs["nuts"].keywords
    assert {name: given[name] for name in given if name.startswith("iter_")} == lengths


def test_compare_without_stan_nuts(files):
    printed = call("compare", "neal", "--stan-nuts", "none", *TINY)
    assert "whitened_hmc" in printed
    assert not any(line.startswith(("nuts", "stan_nuts")) for line in printed.splitlines())
    assert list(files.glob("*.nc")) == []


def constructed(interrupted):
    """Return a fit without a target, as the result of a run in the two tests below."""
    x = np.random.default_rng(1).normal(size=(2, 50))
    attributes = {"sampler": "gad_mala", "interrupted": interrupted, "program_hash": "p"}
    return results.build({"posterior": {"x": x}}, attributes)


def test_a_comparison_ends_with_the_fits_so_far(tmp_path):
    runs = {"one": lambda: constructed(interrupted=True), "two": None}
    fits = compare_command.draw_all(runs, tmp_path, float32=False)
    assert list(fits) == ["one"]
    assert (tmp_path / "one.nc").is_file()
    with pytest.raises(typer.Exit) as end:
        terminal.end(constructed(interrupted=False), fits["one"])
    assert end.value.exit_code == 130

    def fail():
        raise StanadaptError("out_of_range", "the sampler failed.")

    runs = {"nuts": lambda: constructed(interrupted=False), "gad_mala": fail}
    with raises("out_of_range"):
        compare_command.draw_all(runs, tmp_path, float32=False)
    assert (tmp_path / "nuts.nc").is_file()


@pytest.mark.parametrize("judged", [True, False])
def test_after_ctrl_c_there_are_estimates_and_a_verdict(files, capsys, judged):
    """A long fit, which there was no time to judge, is judged by some of its draws."""
    fit = constructed(interrupted=True)
    fit.attrs["verdict"] = "too short" if judged else "not judged"
    with pytest.raises(typer.Exit) as end:
        draw.finish(fit, None, None, {}, Path("fit.nc"), float32=False, format="netcdf")
    printed = capsys.readouterr().out
    assert printed.split()[:2] == ["mean", "sd"]
    assert "too short" in printed  # of 100 draws
    assert (end.value.exit_code, Path("fit.nc").is_file()) == (130, True)
    half = draw._sample_of(fit, 51)
    assert np.array_equal(half.posterior["x"].values, fit.posterior["x"].values[:, ::2])
    assert "one draw in 2" in capsys.readouterr().out


def test_compare_hands_settings_to_the_samplers_that_have_them(files):
    call(
        "compare", "my.stan", "-d", "my.json", "--sampler", "rwm,mala", "--stan-nuts", "none",
        "--set", "initial_scale=0.5", "--set", "mala.target_accept=0.6", "--thin", "2",
        "-o", "r", *TINY,
    )  # fmt: skip
    fits = {name: sa.load(files / "r" / f"{name}.nc") for name in ("rwm", "mala")}
    chosen = {name: json.loads(fit.attrs["settings"]) for name, fit in fits.items()}
    assert chosen["rwm"]["initial_scale"] == 0.5
    assert chosen["mala"]["target_accept"] == 0.6
    assert chosen["rwm"]["target_accept"] != 0.6
    assert results.dataset(fits["rwm"], "posterior").sizes["draw"] == 20


def test_modes(files):
    call("sample", "my.stan", "-d", "my.json", "-s", "rwm", "--out", "fit.nc", *TINY)
    command = "modes", "fit.nc", "--model", "my.stan", "-d"
    printed = call(*command, "my.json", "--out", "modes.csv", "--quiet")
    assert "weight" in printed
    table = pd.read_csv("modes.csv", index_col="mode")
    assert table.loc[1, "x"] == pytest.approx(3, abs=1e-3)
    (files / "other.json").write_text('{"m": 4}')
    assert "data_hash" in call(*command, "other.json", status=1)


def test_lists_as_json_and_benchmarks():
    assert set(json.loads(call("samplers", "--json"))) == set(registered())
    one = json.loads(call("samplers", "gad_mala", "--json"))["gad_mala"]
    assert one["settings"]["diagonal"] is False
    assert json.loads(call("models", "--json"))["logistic"]["data"]
    assert "against-nuts" in call("bench")
    refused("unknown_experiment", "bench", "agains-nuts", facts=["against-nuts"])


def test_names_are_whole_where_there_is_no_terminal(tmp_path):
    long = "a" * 70 + "-" + "b" * 70
    database = tmp_path / "posterior_database"
    for name in ("one-one", long):
        content = {"name": name, "model_name": "m", "data_name": "d", "dimensions": {}}
        tiny_posteriordb.written(database / "posteriors" / f"{name}.json", content)
    printed = CliRunner().invoke(app, ["models", "--posteriordb", str(database)]).stdout
    assert long in printed.splitlines()[-2].split() + printed.splitlines()[-1].split()
    rows = json.loads(call("models", "--posteriordb", database, "--json"))
    assert long in [row["posterior"] for row in rows]


def test_a_shell_completes_commands_and_their_options(monkeypatch, capsys):
    def complete(words):
        monkeypatch.setenv("_STANADAPT_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        monkeypatch.setattr(sys, "argv", ["stanadapt"])
        with pytest.raises(SystemExit):
            app(prog_name="stanadapt")
        return capsys.readouterr().out.split()

    assert complete("stanadapt exp") == ["expectations", "explain"]
    assert "--iter-warmup" in complete("stanadapt sample --iter")


def test_files_of_samplers_that_cannot_be_used(tmp_path):
    assert "there is no file" in call("samplers", "--sampler-file", tmp_path / "x.py", status=2)
    (tmp_path / "broken_sampler.py").write_text("1 / 0")
    printed = call("samplers", "--sampler-file", tmp_path / "broken_sampler.py", status=2)
    assert "ZeroDivisionError" in printed
    (tmp_path / "none.txt").write_text("x = 1")
    assert "end in .py" in call("samplers", "--sampler-file", tmp_path / "none.txt", status=2)
    (tmp_path / "none.py").write_text("x = 1")
    printed = call("samplers", "--sampler-file", tmp_path / "none.py", status=2)
    assert "registers no sampler" in printed
