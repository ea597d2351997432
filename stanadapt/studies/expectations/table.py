"""What `expectations` returns: a table of estimates, and further ones on request."""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from stanadapt import results
from stanadapt.diagnostics import summary
from stanadapt.diagnostics.control_variates.estimates import Draws, expectations_of
from stanadapt.diagnostics.printed_tables import Printed, PrintedFrame, PrintedTable
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.errors import StanadaptError, did_you_mean, is_real, require_names

LARGEST_SHOWN = 10_000  # a larger gain cannot be distinguished from its uncertainty
FEWEST_BEYOND = 10  # draws on each side of a number, for the error of a probability
# of printed columns, by which narrow terminals leave them out; others: 2
RANKS = {"mean": 0, "sd": 0, "MCSE mean": 1, "gain mean": 1, "MCSE sd": 3, "gain sd": 4}


def column_names(levels: Sequence[float]) -> list[str]:
    """Return the columns of the table: each estimate, its standard error and gain; the order."""
    return [
        *(
            name
            for kind in summary.kinds(levels)
            for name in (kind, f"mcse_{kind}", f"gain_{kind}")
        ),
        "order",
    ]


def draws_digest(fit: results.Fit) -> bytes:
    """Return a digest of the posterior, the same for a file with four bytes a number."""
    digest, posterior = hashlib.blake2b(digest_size=16), results.dataset(fit, "posterior")
    for name in sorted(map(str, posterior.data_vars)):
        draws = posterior[name].transpose("chain", "draw", ...).values
        digest.update(f"{name} {draws.shape}".encode())
        with np.errstate(over="ignore"):
            digest.update(np.ascontiguousarray(draws, np.float32).data)
    return digest.digest()


class Basis(NamedTuple):
    """What further estimates need, beside the table."""

    draws: Draws
    quantities: dict[str, np.ndarray]
    weights: np.ndarray | None
    digest: bytes


class Expectations(PrintedFrame):
    """Posterior expectations with control variates: a data frame, printed with the known digits.

    It has a row for each element: `mean`, `mcse_mean` and `gain_mean`, the same for `sd` and each
    quantile (`q5`, `median`), and `order`. `attrs` has the number of `gradients` that were
    evaluated, and `messages`: what limits the estimates, each with a `code`.
    """

    # as pandas asks of subclasses; not in attrs, which pandas copies with every part of a frame
    _metadata: ClassVar[list[str]] = ["_basis"]
    _basis: Basis

    @property
    def weights(self) -> np.ndarray | None:
        """With `weights=True`: a positive weight for each draw, sum 1, shape (chain, draw).

        `(weights * x).sum()` estimates the mean of any x of this shape. Without known errors: the
        table has more precise estimates, with errors.
        """
        return self._basis.weights

    def probability(self, name: str, at_most: float) -> tuple[float, float]:
        """Return the probability that an element is at most a number, and its standard error.

        Parameters
        ----------
        name
            A row of the table, such as "beta[2]".
        at_most
            The number, in the units of the program. With fewer than ten draws on one of its sides,
            the error is unknown, and NaN.

        Examples
        --------
        >>> import stanadapt as sa
        >>> program = "parameters { real x; } model { x ~ normal(3, 2); }"
        >>> target = sa.Target(program, backend="stanli", show_progress=False)
        >>> fit = sa.sample(target, seed=1, show_progress=False)
        >>> value, error = sa.expectations(fit, target).probability("x", 5.0)
        >>> bool(abs(value - 0.8413) < 5 * error + 1e-4)
        True
        """
        (x,) = self._of([name])
        if not is_real(at_most) or np.isnan(at_most):
            raise StanadaptError("out_of_range", f"at_most must be a number, got {at_most!r}.")
        if not np.isfinite(x).all():
            return np.nan, np.nan
        share = float((x <= at_most).mean())
        if min(share, 1.0 - share) * x.size < FEWEST_BEYOND:
            return share, np.nan
        with one_blas_thread(), np.errstate(all="ignore"):
            ((_, batch),) = self._basis.draws.batches({name: x})
            found = batch.probabilities(np.array([float(at_most)]))
        return float(np.clip(found.mean[0], 0.0, 1.0)), float(np.sqrt(found.variance[0]))

    def covariance(self, names: str | Iterable[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the covariance matrix of elements that vary, and its standard errors.

        Parameters
        ----------
        names
            Rows of the table, such as ["beta[1]", "beta[2]"].
        """
        names = require_names("names", names)
        if not names or len(set(names)) < len(names):
            raise StanadaptError("wrong_quantity", f"names must be different rows, got {names}.")
        columns = self._of(names)
        moving = [i for i, x in enumerate(columns) if np.isfinite(x).all() and np.ptp(x) > 0.0]
        pairs = list(combinations_with_replacement(moving, 2))
        means = {i: float(self["mean"].get(names[i], columns[i].mean())) for i in moving}
        products = {f"{i} {j}": (columns[i] - means[i]) * (columns[j] - means[j]) for i, j in pairs}
        values = pd.DataFrame(np.nan, index=names, columns=names)
        errors = values.copy()
        if pairs:
            with one_blas_thread(), np.errstate(all="ignore"):
                found = expectations_of(self._basis.draws, products)
            for (i, j), value, error in zip(pairs, found.value, found.error, strict=True):
                values.iloc[i, j] = values.iloc[j, i] = value
                errors.iloc[i, j] = errors.iloc[j, i] = error
        return values, errors

    def _of(self, names: list[str]) -> list[np.ndarray]:
        known = self._basis.quantities
        for name in names:
            if name not in known:
                text = f"the table has no row {name!r}.{did_you_mean(name, known)}"
                raise StanadaptError("unknown_variable", text)
        return [known[name] for name in names]

    def add_to(self, fit: results.Fit) -> None:
        """Add the table to a fit, as its group `expectations`, which files keep.

        Weights become the statistic `stein_weight` of its draws. Raises StanadaptError for another
        fit than the one of these expectations.
        """
        results.require_draws(fit, "fit")
        if draws_digest(fit) != self._basis.digest:
            raise StanadaptError(
                "fit_of_another_target",
                "the fit has other draws than the one from which these expectations were computed. "
                "Give that fit, or call expectations for this one.",
            )
        dims = {str(name): ("quantity", self[name].to_numpy(float)) for name in self}
        data = xr.Dataset(dims, coords={"quantity": self.index.astype(str).to_numpy(object)})
        results.add_groups(fit, {results.EXPECTATIONS: data})
        if self.weights is not None:
            kept = "sample_stats" in results.group_names(fit)
            stats = results.dataset(fit, "sample_stats") if kept else xr.Dataset()
            stats = stats.assign(stein_weight=(("chain", "draw"), self.weights))
            results.add_groups(fit, {"sample_stats": stats})

    @property
    def _is_complete(self) -> bool:
        known = {"gradients", "messages"} <= self.attrs.keys() and hasattr(self, "_basis")
        return known and {*column_names([])} <= {*self.columns}

    def _printed(self) -> Printed:
        """The estimates, long arrays in one row each, and the messages."""
        shown: dict[str, list[str]] = {}
        names = []
        estimates = [name for name in self if f"mcse_{name}" in self]
        for name, part in summary.printed_rows(self):
            names.append(name)
            for kind in estimates:
                errors = part[f"mcse_{kind}"]
                values = part[kind].dropna().to_numpy(float)
                places, known = summary.decimals(errors), summary.digits(part)
                cell = summary.span(values, places, known) if len(values) else ""
                shown.setdefault(summary.title_of(kind), []).append(cell)
                if kind in ("mean", "sd"):
                    worst = errors.max()
                    text = "" if np.isnan(worst) else f"{worst:.1g}"
                    shown.setdefault(f"MCSE {kind}", []).append(text)
                    gain = part[f"gain_{kind}"].min()
                    shown.setdefault(f"gain {kind}", []).append(_gain(gain))
        ranks = {title: RANKS.get(title, 2) for title in shown}
        return Printed([PrintedTable("", names, shown, ranks)], self._lines())

    def _lines(self) -> list[str]:
        gains = self["gain_mean"].dropna()
        lines = []
        if len(gains):
            draws = self._basis.draws.chains * self._basis.draws.draws
            lines.append(
                f"gain: variance without control variates over that with them; of means at least "
                f"{_gain(gains.min())}, median {_gain(gains.median())}. "
                f"{self.attrs['gradients']:,} gradients for {draws:,} draws."
            )
        return [*lines, *self.attrs["messages"]]


def _gain(gain: Any) -> str:
    if np.isnan(gain):
        return ""
    if gain > 0.99 * LARGEST_SHOWN:
        return f"> {LARGEST_SHOWN:,} x"
    return f"{gain:,.0f} x" if gain >= 10.0 else f"{gain:.1f} x"
