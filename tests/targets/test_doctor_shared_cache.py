"""The report of `stanadapt doctor` on the caches."""

from stanadapt.engine.compiled import cache_folder, machine_code
from stanadapt.engine.compiled.dependencies import PACKAGE_KEY
from stanadapt.targets import doctor
from tests.helpers.codes import warns


def report(monkeypatch, root):
    monkeypatch.setenv("STANADAPT_SHARED_CACHE", str(root))
    return doctor._shared_cache()


def test_a_shared_cache_is_reported_with_what_it_lacks(tmp_path, monkeypatch):
    root = tmp_path / "shared"
    assert "no such folder" in report(monkeypatch, root)[0]
    root.mkdir(mode=0o755)
    assert "no code of this version" in report(monkeypatch, root)[0]
    other = tmp_path / "full"
    folder = other / machine_code.FOLDER
    folder.mkdir(parents=True)
    (folder / f"{PACKAGE_KEY}-step-0").touch()
    for path in (other, folder):
        path.chmod(0o755)
    assert report(monkeypatch, other) == [f"shared cache: {other}"]
    other.chmod(0o777)
    assert "NOT USED" in report(monkeypatch, other)[0]


def test_a_cache_that_cannot_be_written_has_its_reason(tmp_path, monkeypatch):
    monkeypatch.delenv("STANADAPT_SHARED_CACHE", raising=False)
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    with warns("cache_not_used", tmp_path / "file"):
        cache_folder.writable_folder("compiled")
    (line,) = [line for line in doctor.lines() if line.startswith("cache: ")]
    assert "NOT WRITTEN" in line
    assert not [line for line in doctor.lines() if line.startswith("shared cache: ")]
