"""Faults of CmdStan's releases: functions whose value, gradient or memory access is wrong.

The table holds faults that Stan's release notes or the tracker of its math library name as fixed
since 2.27, the release that `install-cmdstan` falls back to. A fault counts if the program calls
the function where the density is computed; `agreement.py` is for faults not yet reported.
"""

import re
from typing import NamedTuple

from stanadapt.targets.stan.syntax import block
from stanadapt.targets.stan.toolchain import numbers

DENSITY_BLOCKS = ("functions", "transformed parameters", "model")


class Fault(NamedTuple):
    function: str  # name of the function
    fixed: tuple[int, int, int]  # first release without the fault
    effect: str  # in words
    source: int  # number of the pull request that fixed it, in stan-dev/math
    # first release with the fault, if it is not that of the function
    since: tuple[int, int, int] = (2, 0, 0)
    writes_memory: bool = False  # whether an evaluation may overwrite memory of the process


FAULTS = (
    Fault("csr_matrix_times_vector", (2, 28, 0),
          "value and gradient are wrong, and memory is overwritten, if the vector depends on "
          "parameters", 2586, since=(2, 27, 0), writes_memory=True),
    Fault("generalized_inverse", (2, 28, 0),
          "wrong for symmetric matrices without full rank", 2577),
    Fault("ode_adjoint_tol_ctl", (2, 28, 1), "its memory is managed wrongly", 2600),
    Fault("matrix_exp", (2, 29, 0), "NaN for two-by-two matrices with large eigenvalues", 2616),
    Fault("log_inv_logit_diff", (2, 31, 0), "wrong if the first argument is infinite", 2798),
    Fault("csr_to_dense_matrix", (2, 32, 0), "fails for matrices with an empty first row", 2877),
    Fault("gp_matern32_cov", (2, 36, 0),
          "reads outside its memory if there are several length scales", 3084),
)  # fmt: skip


def density_text(code: str) -> str:
    """Return the text of the blocks that a log density may depend on."""
    return "\n".join(block(code, name) for name in DENSITY_BLOCKS)


def find(code: str, version: str) -> list[Fault]:
    """Return the faults of a release of Stan, such as "2.27.0", that a program may meet."""
    release = numbers(version)  # without any, it is before all others
    text = density_text(code)
    return [
        fault
        for fault in FAULTS
        if fault.since <= release < fault.fixed
        and re.search(rf"\b{fault.function}\s*\(", text) is not None
    ]


def describe(faults: list[Fault], version: str) -> str:
    """Return a clause about faults of a release, with the release that has none of them."""
    listed = "; ".join(
        f"{fault.function}: {fault.effect} (stan-dev/math#{fault.source})" for fault in faults
    )
    fixed = ".".join(map(str, max(fault.fixed for fault in faults)))
    return f"Stan {version} has known faults in this program, fixed in {fixed}: {listed}"
