"""`make_data --check`: which files count as equal, which differ, which could not be checked."""

import json

import pytest

from workflows.data import debian, make_data

# files that are made quickly
FILES = {
    "neal/neal.json": lambda: {"N": 100},
    "boltzmann/one.json": lambda: {"b": [0.5, 1]},
    "boltzmann/known_moments.json": lambda: {"mean": [0.5, 1]},
}


@pytest.fixture
def folder(tmp_path):
    """A folder in which they are written."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
    make_data.write_files(tmp_path, FILES)
    return tmp_path


def test_equal_files_and_last_digits(folder, capsys):
    make_data.check_files(folder, FILES)
    assert "3 of 3" in capsys.readouterr().out
    (folder / "boltzmann" / "one.json").write_text(json.dumps({"b": [0.500001, 1]}))
    (folder / "boltzmann" / "known_moments.json").write_text(json.dumps({"mean": [0.500001, 1]}))
    make_data.check_files(folder, FILES)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("neal/neal.json", '{"N": 100}'),  # one more space
        ("boltzmann/one.json", '{"b":[0.5,1.00002]}'),
        ("boltzmann/one.json", '{"b":[0.5,1,1]}'),
        ("boltzmann/one.json", '{"b":[0.5,"1"]}'),
        ("boltzmann/one.json", '{"Q":[0.5,1]}'),
        ("boltzmann/one.json", None),
        ("boltzmann/known_moments.json", '{"mean":[0.5,1.00002]}'),
    ],
)
def test_a_file_that_differs_is_named(folder, name, text):
    path = folder / name
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit, match=f": {name}$"):
        make_data.check_files(folder, FILES)


def test_a_failed_download_is_reported_and_is_no_error(folder, monkeypatch, capsys):
    monkeypatch.setattr(debian.shutil, "which", lambda name: None)
    make = lambda: debian.downloaded("r-bioc-multtest", "golub.RData", folder)  # noqa: E731
    files = {**FILES, "horseshoe/golub.json": make}
    make_data.write_files(folder, files)
    make_data.check_files(folder, files)
    output = capsys.readouterr().out
    reason = "horseshoe/golub.json, because apt-get or dpkg-deb is not installed"
    assert f"left unchanged: {reason}" in output
    assert f"not checked: {reason}" in output
    assert "3 of 4 files checked" in output
