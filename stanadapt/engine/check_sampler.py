"""Check a sampler, of the package or of a user's own, against what every sampler must do."""

from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from stanadapt.engine.compile_errors import explained
from stanadapt.engine.registry import find


def check_sampler(sampler: Any, *, show: bool = True, **settings: Any) -> pd.DataFrame:
    """Run the tests that every sampler of the package passes, and report them.

    A correct sampler fails one of them by chance once in ten thousand times. One that declares
    itself not exact (`Sampler.exact`) need not leave the target invariant: that is not checked.

    Parameters
    ----------
    sampler
        Name of a registered sampler, or an instance of its `Settings`.
    show
        Also print the report.
    settings
        The sampler's own, by name. Give those with which it tunes within 2000 iterations.

    Returns
    -------
    pandas.DataFrame
        A row per check, with columns `passed` and `problem`, a sentence that is empty where it
        passed.

    Raises
    ------
    StanadaptError
        Stage "settings" for a sampler that is not registered, "sampler" for one that does not
        compile.

    """
    from stanadapt.engine.contract import Case, checks_of

    found, chosen = find(sampler, **settings)
    with explained(found):
        problems = {name: check(Case(chosen, {})) for name, check in checks_of(found).items()}
    report = pd.DataFrame(
        {"passed": [not p for p in problems.values()], "problem": list(problems.values())},
        index=pd.Index(problems, name="check"),
    )
    if show:
        _show(found.name if found.exact else f"{found.name} (not exact)", report)
    return report


def _show(name: str, report: pd.DataFrame) -> None:
    table = Table("check", "result", box=None, header_style="bold", title=f"sampler {name}")
    for check, row in report.iterrows():
        table.add_row(str(check), "passed" if row["passed"] else f"FAILED: {row['problem']}")
    Console().print(table)
