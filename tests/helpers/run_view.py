"""What a sampler's report sees of a run, made up: settings, dimension and statistics."""

from types import SimpleNamespace


def view_of(settings, sample_stats, dim=2, **others):
    """Stand in for a `RunView` without chains."""
    return SimpleNamespace(settings=settings, sample_stats=sample_stats, dim=dim, **others)
