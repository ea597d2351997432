"""Commands on fits that were saved, and files that are not overwritten unasked."""

from types import SimpleNamespace

import pandas as pd
import pytest

import stanadapt as sa
from stanadapt.cli.terminal import require_writable
from stanadapt.errors import StanadaptError
from tests.helpers import made_up_fits
from tests.helpers.command_line import TINY, call


@pytest.fixture
def saved(files):
    for seed, name in enumerate(("one", "two")):
        sa.save(made_up_fits.fit(seed), files / f"{name}.nc")
    (files / "other").mkdir()
    sa.save(made_up_fits.diverging(3), files / "other" / "one.nc")
    return files


def test_diagnose(saved):
    assert call("diagnose", "one.nc").startswith("fine: 4 x 250 draws")
    printed = call("diagnose", "other/one.nc")
    assert printed.startswith("too short: ")
    assert "- 40 of 1000 draws" in printed
    assert "there is no file" in call("diagnose", "none.nc", status=1)


def test_table(saved):
    printed = call(
        "table", "one.nc", "two.nc", "other/one.nc", "--budget", "gradients", "-o", "t.csv"
    )
    assert "other/one.nc: too short." in printed
    assert "bulk ESS in 10,000 gradients" in printed
    table = pd.read_csv("t.csv", index_col="fit")
    assert list(table.index) == ["one.nc", "two", "other/one.nc"]
    named = call("table", "one.nc", "two.nc", "--baseline", "two", "--vars", "a,c")
    assert "z: largest difference from two" in named
    assert "no fit has a variable 'q'" in call("table", "one.nc", "two.nc", "--vars", "q", status=1)


# --- files that exist ----------------------------------------------------------------------------


def test_a_file_is_overwritten_only_if_asked_for(saved):
    before = (saved / "one.nc").read_bytes()
    run = ["sample", "my.stan", "-d", "my.json", "-s", "rwm", "--out", "one.nc", *TINY]
    printed = call(*run, status=1)
    assert "one.nc would be overwritten" in printed
    assert "--force" in printed
    assert (saved / "one.nc").read_bytes() == before
    call(*run, "--force")
    assert sa.load(saved / "one.nc").attrs["sampler"] == "rwm"


@pytest.mark.parametrize("answer", [True, False])
def test_in_a_terminal_it_is_asked(saved, monkeypatch, answer):
    asked = []

    def confirm(question, **options):
        asked.append(question)
        return answer

    monkeypatch.setattr("typer.confirm", confirm)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    paths = [saved / "one.nc", saved / "new.nc"]
    if answer:
        assert require_writable(paths, force=False) == paths
    else:
        with pytest.raises(StanadaptError, match="would be overwritten"):
            require_writable(paths, force=False)
    assert asked == [f"Overwrite {saved / 'one.nc'}?"]


def test_compare_overwrites_nothing(saved):
    (saved / "r").mkdir()
    (saved / "r" / "comparison.csv").write_text("kept")
    printed = call("compare", "my.stan", "-d", "my.json", "-o", "r", *TINY, status=1)
    assert "comparison.csv would be overwritten" in printed
    assert (saved / "r" / "comparison.csv").read_text() == "kept"
