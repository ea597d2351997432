"""`stanadapt compile`: samplers in the cache before their first run."""

import json
import os
import subprocess
import sys

import pytest

from stanadapt.engine.compiled.cache_folder import cache_root
from stanadapt.engine.compiled.machine_code import MachineCode
from stanadapt.samplers import registered
from stanadapt.studies import compile_ahead
from tests.helpers.codes import raises
from tests.helpers.command_line import call, refused
from tests.helpers.repository import ROOT


def test_a_sampler_is_compiled_once(capsys):
    call("compile", "rwm", "--quiet")
    printed = call("compile", "rwm", "rwm")  # one that is named twice, too
    assert "rwm 0 " in printed
    assert printed.count("was in the cache") == 1
    assert str(cache_root()) in printed


def test_an_unknown_sampler_is_refused_before_anything_is_compiled():
    ran = []
    with raises("unknown_sampler", "nutz", "nuts"):
        next(compile_ahead.compile_ahead(["rwm", "nutz"], False, lambda *_: ran.append(1)))
    assert not ran


def test_all_samplers_are_compiled_if_none_is_named():
    ran = []
    compiled = compile_ahead.compile_ahead((), False, lambda _, sampler: ran.append(sampler.name))
    assert [done.sampler for done in compiled] == ran
    assert ran == list(registered())


def test_a_cache_that_cannot_be_written(monkeypatch):
    """It is refused, at once: all would be compiled in vain."""
    monkeypatch.setattr(compile_ahead, "is_temporary", lambda folder: True)
    refused("cache_not_writable", "compile", "rwm", facts=[cache_root()])


def test_a_disk_that_becomes_full(monkeypatch):
    def run(target, sampler):
        MachineCode.not_kept = True

    monkeypatch.setattr(MachineCode, "not_kept", False)
    with raises("cache_not_writable", cache_root()):
        list(compile_ahead.compile_ahead(["rwm", "am"], False, run))


RUN = """
import json, sys
import stanadapt as sa
from stanadapt.engine.compiled.compilations import HISTORY
for options in json.loads(sys.argv[1]):
    program = "data { int n; vector[n] y; } parameters { real m; vector[n] x; real<lower=0> s; }"
    program += "model { m ~ normal(0, 1); s ~ normal(0, 1); x ~ normal(m, s); y ~ normal(x, 1); }"
    target = sa.Target(program, {"n": 5, "y": [0, 1, 2, 3, -9]}, backend="stanli")
    sa.sample(target, seed=1, chains=3, iter_warmup=150, iter_sampling=30, **options)
print(len(HISTORY), sorted({f"{f.__module__}.{f.__name__}" for f in HISTORY}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variants"),
    [
        ("whitened_hmc", [{}, {"trajectory": "nuts"}, {"standardize": False, "thin": 2}]),
        pytest.param(
            "rwm",
            [{}, {"save": "unconstrained", "save_warmup": True}, {"tune_scale": False}],
            marks=pytest.mark.soak,
        ),
        pytest.param(
            "kameleon",
            [{"subsample": 50}, {"kernel": "matern32", "standardize": False}],
            marks=pytest.mark.soak,
        ),
    ],
)
def test_nothing_is_compiled_afterwards(tmp_path, name, variants):
    """In a fresh process, for another program, with other settings; and no line says otherwise."""
    environment = os.environ | {"STANADAPT_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "stanadapt", "compile", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"Compiling {name}, sampler 1 of 1 (" in done.stderr
    assert "compiled" in done.stdout

    options = json.dumps([{"sampler": name, **variant} for variant in variants])
    command = [sys.executable, "-W", "ignore", "-c", RUN, options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "0 []\n"
    assert "Compiling" not in done.stderr
