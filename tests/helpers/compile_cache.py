"""A cache of compiled programs for a single test."""

import json

import pytest

from stanadapt.engine.compiled import cache_folder
from stanadapt.targets.stan import build_cache
from stanadapt.targets.stan.backends import cmdstan


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache that contains only the parts common to all programs, which compile slowly."""
    cmdstan.prepare(lambda text: None)
    key = cmdstan._recipe().key
    shared = build_cache.find("parts", key)
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path / "cache"))
    root = cache_folder.writable_folder(build_cache.BUILDS)
    # a marker may contain the absolute path of a folder elsewhere
    marker = json.dumps({"folder": str(shared), "files": {}})
    build_cache._marker(root, "parts", key).write_text(marker)
    return root
