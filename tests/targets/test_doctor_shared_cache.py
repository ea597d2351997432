"""The report of `stanadapt doctor` on a shared cache."""

from stanadapt.engine.compiled import jit
from stanadapt.targets import doctor


def report(monkeypatch, root):
    monkeypatch.setenv("STANADAPT_SHARED_CACHE", str(root))
    return doctor._shared_cache()


def test_a_shared_cache_is_reported_with_what_it_lacks(tmp_path, monkeypatch):
    root = tmp_path / "shared"
    assert "no such folder" in report(monkeypatch, root)[0]
    root.mkdir(mode=0o755)
    assert "no code of this version" in report(monkeypatch, root)[0]
    other = tmp_path / "full"
    folder = other / jit.CACHE.parent.name / jit.CACHE.name
    folder.mkdir(parents=True)
    for path in (other, folder.parent, folder):
        path.chmod(0o755)
    assert report(monkeypatch, other) == [f"shared cache: {other}"]
    other.chmod(0o775)
    assert "NOT USED" in report(monkeypatch, other)[0]


def test_no_shared_cache_no_line(monkeypatch):
    monkeypatch.delenv("STANADAPT_SHARED_CACHE", raising=False)
    assert doctor._shared_cache() == []
