"""A fit in ArviZ 0.23. A file of its own, since its class needs ArviZ at import."""

from stanadapt.results.answers import Answers
from stanadapt.results.arviz_module import arviz_module


class InferenceData(Answers, arviz_module().InferenceData):  # type: ignore[misc]
    """Under the name of its parent, which is shown."""
