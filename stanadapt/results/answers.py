"""What fits answer where methods of other packages are asked of them: what does the same here.

A file of its own, since the classes of fits need it, and one of them ArviZ.
"""

from typing import Any

SUMMARY, DRAWS = "stanadapt.summary(fit)", 'fit["posterior"], or arviz.extract(fit)'
SAVE, PREDICT = 'stanadapt.save(fit, "fit.nc")', "stanadapt.generate(fit, target, data)"
DO_THE_SAME = {
    "summary": SUMMARY, "summarize": SUMMARY, "describe": SUMMARY, "print_summary": SUMMARY,
    "draws": DRAWS, "draws_pd": DRAWS, "stan_variable": DRAWS, "stan_variables": DRAWS,
    "extract": DRAWS, "samples": DRAWS, "get_samples": DRAWS, "to_frame": DRAWS,
    "save": SAVE, "save_csvfiles": SAVE, "save_object": SAVE,
    "generate_quantities": PREDICT, "predict": PREDICT, "posterior_predict": PREDICT,
    "diagnose": "stanadapt.diagnose(fit, target)", "verdict": 'fit.attrs["verdict"]',
    "report": 'stanadapt.report({"fit": fit}, "report.html")',
    "loo": "arviz.loo(fit)", "waic": "arviz.loo(fit)", "plot": "arviz.plot_trace(fit)",
}  # fmt: skip


class Answers:
    """The attributes that a fit does not have."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)  # type: ignore[misc]  # of a DataTree: its groups
        except AttributeError as error:
            same = DO_THE_SAME.get(name)
            if same is None:
                raise AttributeError(
                    f"{type(self).__name__!r} object has no attribute {name!r}"
                ) from error
            text = f"A fit is an ArviZ object, and has no {name}. Use {same}."
            raise AttributeError(text) from None
