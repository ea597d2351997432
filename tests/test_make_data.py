"""`workflows/make_data.py --check`: what it calls equal, what differs, what it could not check."""

import json
from pathlib import Path

import pytest

WORKFLOWS = Path(__file__).parents[1] / "workflows"


@pytest.fixture
def make_data(monkeypatch, tmp_path):
    """The module, with two files that take no time, in a folder of its own."""
    monkeypatch.syspath_prepend(WORKFLOWS)
    import make_data

    files = {"neal/neal.json": lambda: {"N": 100}, "boltzmann/one.json": lambda: {"b": [0.5, 1]}}
    for name in files:
        (tmp_path / name).parent.mkdir()
    monkeypatch.setattr(make_data, "STAN_MODELS", tmp_path)
    monkeypatch.setattr(make_data, "FILES", files)
    return make_data


def test_what_was_written_is_equal(make_data, capsys):
    make_data.write_files()
    make_data.check_files()
    assert "all 2 files are what make_data.py makes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("neal/neal.json", '{"N": 100}'),  # one space more
        ("boltzmann/one.json", '{"b":[0.5,1.00002]}'),
        ("boltzmann/one.json", '{"b":[0.5,1,1]}'),
        ("boltzmann/one.json", '{"b":[0.5,"1"]}'),
        ("boltzmann/one.json", '{"Q":[0.5,1]}'),
        ("boltzmann/one.json", None),
    ],
)
def test_a_file_that_differs_is_named(make_data, name, text):
    make_data.write_files()
    path = make_data.STAN_MODELS / name
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit, match=f"not what make_data.py makes: {name}$"):
        make_data.check_files()


def test_a_last_digit_of_a_boltzmann_machine_may_differ(make_data):
    make_data.write_files()
    path = make_data.STAN_MODELS / "boltzmann" / "one.json"
    path.write_text(json.dumps({"b": [0.500001, 1]}))
    make_data.check_files()


def test_what_apt_cannot_get_is_told_and_no_error(make_data, monkeypatch, tmp_path, capsys):
    import make_golub

    monkeypatch.setattr(make_golub.shutil, "which", lambda name: None)
    files = {**make_data.FILES, "horseshoe/golub.json": lambda: make_golub.fetched(tmp_path)}
    monkeypatch.setattr(make_data, "FILES", files)
    make_data.write_files()
    make_data.check_files()
    said = capsys.readouterr().out
    assert "left as it is: horseshoe/golub.json, because there is no apt-get here" in said
    assert "not checked: horseshoe/golub.json, because there is no apt-get here" in said
    assert "all the others of 3 files" in said
