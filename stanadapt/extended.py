"""The pseudo-extension of a Stan program, to be sampled by any sampler: what users make.

See `extended_density` for the mathematics. A position is (x_1, ..., x_N) and, where temperatures
are free, (u_1, ..., u_N); every x_i is an unconstrained position of the program.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stanadapt import data as stan_data
from stanadapt import results
from stanadapt.density import Density, value, value_and_gradient
from stanadapt.extended_density import COLLAPSED, FREE, Source, choose, weigh
from stanadapt.extended_design import read_design, wrong
from stanadapt.extended_handle import extended_dim, extension_of, make_extended, source_of
from stanadapt.plan import whole
from stanadapt.reference_law import Law, ReferenceLaw
from stanadapt.same_target import check_same_target
from stanadapt.target import Data, Samplable, Target, checked

RADIUS = 2.0  # of u at the start, as of Stan's other unconstrained parameters
TRIES, AGREEMENT = 100, 1e-9


class Extended(Samplable):
    """A target and N pseudo-samples of it, each at a temperature of its own.

    For posteriors with several modes: a hot pseudo-sample walks between them, and takes over
    where it is worth more than the others. The draws of a run are ordinary draws of the program:
    of each iteration one pseudo-sample, chosen by weight.

    Parameters
    ----------
    target
        The program and its data.
    pseudo_samples
        N, at least 1. Each evaluation costs N of the target's, and N more with `prior_data`; a
        draw that is kept costs N values of either, for its weights.
    temperature
        Inverse temperatures b, 1 is the target's own: "free", each moves within `between`;
        "fixed", all are `fixed_at`; "collapsed", each is summed over those of `ladder`.
    between
        Lowest and highest free temperature, 0 <= lowest < highest <= 1.
    fixed_at
        The fixed temperature, in [0, 1].
    reference_law
        A `ReferenceLaw`, the law at b = 0: at b the instrumental law is target^b law^(1 - b). None
        for target^b, as published, which is often improper: see the warning that it gives.
    prior_data
        Instead: data of the same program, such as none at all, under which its density is the law
        at b = 0. It must be proper; its constant need not be known. The sizes of parameters must
        not depend on what changes.
    ladder
        Temperatures, increasing up to 1, and the log of the normalising constant of the
        instrumental law at each, up to one number for all: of the density as `target.evaluate`
        gives it, and of the normalised law. Free temperatures then have g(b) = 1 / Z(b), which
        makes b uniform under the instrumental law; log Z is interpolated by monotone cubics.
        Without a ladder their g is flat.
    learned
        In place of reference_law and ladder: a fit of the same program by parallel_tempering or
        pseudo_extended, whose first chain has learned both.

    Raises
    ------
    StanadaptError
        Stage "settings" or "data".

    """

    def __init__(
        self,
        target: Target,
        pseudo_samples: int = 2,
        *,
        temperature: str = "free",
        between: Sequence[float] = (0.0, 1.0),
        fixed_at: float = 0.5,
        reference_law: ReferenceLaw | None = None,
        prior_data: Data = None,
        ladder: Sequence[Any] | None = None,
        learned: Any = None,
    ) -> None:
        self._base = _extensible(target)
        if learned is not None:
            if not (reference_law is None and prior_data is None and ladder is None):
                raise wrong("`learned` brings reference_law and ladder: leave out the others.")
            reference_law, ladder = _learned(self._base, learned)
        self.name = self._base.name
        self.pseudo_samples = whole("pseudo_samples", pseudo_samples, 1)
        self.temperature = temperature
        self._design = read_design(self.pseudo_samples, temperature, between, fixed_at, ladder)
        self.dim = extended_dim(self._design, self._base.dim)
        self._law, self._prior = None, None
        if prior_data is not None:
            self._prior = _prior(self._base, prior_data, reference_law)
        elif reference_law is not None:
            self._law = _law(reference_law, self._base.dim)
        elif self.pseudo_samples > 1:
            warnings.warn(_improper(self), UserWarning, stacklevel=2)
        self._sources = [_calibrated(t) for t in (self._base, self._prior) if t is not None]
        self.evaluations_per_call = self.pseudo_samples
        self.description = self._described(reference_law)

    @property
    def target(self) -> Target:
        """The program and its data."""
        return self._base

    @property
    def lowest_temperature(self) -> float:
        """The smallest b that a pseudo-sample can have."""
        design = self._design
        return design.low if design.mode != COLLAPSED else float(design.ladder[0])

    def __repr__(self) -> str:
        return (
            f"Extended({self.name!r}, {self.pseudo_samples} pseudo-samples, {self.temperature}, "
            f"{self.dim} parameters)"
        )

    def _described(self, law: ReferenceLaw | None) -> dict[str, Any]:
        design = self._design
        kind = repr(law) if self._prior is None else "prior_data"
        found = {
            "pseudo_samples": self.pseudo_samples,
            "temperature": self.temperature,
            "reference_law": "none" if kind == "None" else kind,
        }
        if design.mode != COLLAPSED:
            found["temperature_range"] = [design.low, design.high]
        if design.ladder.size:
            found["ladder"] = design.ladder
            found["ladder_log_normalizers"] = design.log_normalizers
        if self._prior is not None:
            found["prior_data_hash"] = stan_data.digest(self._prior.data)
        return found

    def density(self, chain: int = 0) -> Density:
        """Make a density with its own memory, for one chain. This must outlive it."""
        sources = [
            _of_chain(target, source, chain)
            for target, source in zip((self._base, self._prior), self._sources, strict=False)
        ]
        return make_extended(self._design, self._base.dim, sources[0], self._law, *sources[1:])

    def value(self, position: np.ndarray) -> float:
        """Log density; -inf where it is not finite."""
        return value(self.density(), np.array(position, dtype=float))

    def evaluate(self, position: np.ndarray) -> tuple[float, np.ndarray, str]:
        """Log density, gradient and, where it fails, why, in Stan's words if it has any."""
        position, gradient = np.array(position, dtype=float), np.empty(self.dim)
        found = value_and_gradient(self.density(), position, gradient)
        if np.isfinite(found):
            return found, gradient, ""
        return -np.inf, np.full(self.dim, np.nan), self._words(position)

    def _words(self, position: np.ndarray) -> str:
        for i, x in enumerate(self._blocks(position), 1):
            for target, what in ((self._base, ""), (self._prior, " under prior_data")):
                found, slope, words = (0.0, 0.0, "") if target is None else target.evaluate(x)
                if words:
                    return f"pseudo-sample {i}{what}: {words}"
                if not np.isfinite(found):
                    return f"pseudo-sample {i}{what}: the log density is {found}"
                if not np.all(np.isfinite(slope)):
                    return f"pseudo-sample {i}{what}: the gradient is not finite"
        return "a pseudo-sample is so far out that the reference law is not finite"

    def _blocks(self, positions: np.ndarray) -> np.ndarray:
        """(..., dim) -> (..., N, dim of the program)."""
        n, dim = self.pseudo_samples, self._base.dim
        return positions[..., : n * dim].reshape(*positions.shape[:-1], n, dim)

    def started(self, draw: Callable[[], np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """Return a starting position: one of the program for each block, u uniform on (-2, 2)."""
        free = self.pseudo_samples if self._design.mode == FREE else 0
        blocks = [draw() for _ in range(self.pseudo_samples)]
        return np.concatenate([*blocks, rng.uniform(-RADIUS, RADIUS, free)])

    def pseudo(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Take positions, shape (chain, draw, dim), apart.

        Returns the program's positions, shape (chain, draw, pseudo, dim), and, of shape (chain,
        draw, pseudo), temperatures (where collapsed, their means given the positions) and weights.
        """
        shape = (*positions.shape[:2], self.pseudo_samples)
        temperatures, weights = np.empty(shape), np.empty(shape)
        density = self.density()
        extension = extension_of(density)
        for chain, rows in enumerate(positions):
            weigh(extension, np.array(rows), temperatures[chain], weights[chain])
        return self._blocks(positions), temperatures, weights

    def constrainer(self, seed: int, chain: int = 0) -> "Resampler":
        """Make a callable that turns draws of one chain into draws of the program."""
        return Resampler(self, seed, chain)


class Resampler:
    """Chooses one pseudo-sample a draw, by weight, and constrains it as the program does.

    Its random numbers are its own: it takes one a row, so that chunks do not matter.
    """

    def __init__(self, extended: Extended, seed: int, chain: int) -> None:
        self._density, self._count = extended.density(chain), extended.pseudo_samples
        self._extension = extension_of(self._density)
        self._dim, self._rng = extended.target.dim, np.random.default_rng((seed, self._count))
        self._constrain = extended.target.constrainer(seed, chain)

    def __call__(self, positions: np.ndarray, out: np.ndarray) -> int:
        """Fill out (draw, column); return how many rows' generated quantities threw: NaN."""
        shape, chosen = (len(positions), self._count), np.empty((len(positions), self._dim))
        temperatures, weights = np.empty(shape), np.empty(shape)
        weigh(self._extension, positions, temperatures, weights)
        choose(positions, weights, self._rng, chosen)
        return self._constrain(chosen, out)

    def explain(self) -> str:
        """Stan's words for the last row that threw."""
        return self._constrain.explain()


def _extensible(target: Any) -> Target:
    if isinstance(target, Extended):
        raise wrong("the target is an Extended already: ask it for more pseudo_samples.")
    if checked(target).noise:
        raise wrong(
            f"the density of {target.name} is an estimate with noise {', '.join(target.noise)}, "
            "and a power of an estimate is biased: make the target without `noise` to sample both."
        )
    return target


def _learned(target: Target, fit: Any) -> tuple[ReferenceLaw, tuple[np.ndarray, np.ndarray]]:
    """Return the reference law and the ladder of the first chain of a fit."""
    known = results.is_fit(fit)
    if not known or "tempering" not in results.group_names(fit):
        came = f"one of {results.attribute(fit, 'sampler', 'Stan')}" if known else repr(fit)
        raise wrong(
            f"`learned` must be a result of parallel_tempering or pseudo_extended, got {came}."
        )
    check_same_target(target, fit)
    found = results.dataset(fit, "tempering").isel(chain=0)
    if "reference_mean" not in found:
        raise wrong(
            "the fit in `learned` had no reference law to learn: give its reference_law or "
            "prior_data in place of it, or sample the target without them."
        )
    law = ReferenceLaw(found["reference_mean"].values, found["reference_sd"].values)
    there = np.isfinite(found["temperature"].values)
    columns = (found[name].values[there] for name in ("temperature", "log_normalizer"))
    return law, tuple(columns)


def _law(given: Any, dim: int) -> Law:
    if not isinstance(given, ReferenceLaw):
        raise wrong(f"reference_law must be a ReferenceLaw(mean, sd), got {given!r}.")
    return given.law(dim)


def _prior(target: Target, data: Data, law: Any) -> Target:
    if law is not None:
        raise wrong("give either reference_law or prior_data.")
    return target.with_prior_data(data)


def _improper(extended: Extended) -> str:
    lowest, name = extended.lowest_temperature, extended.name
    cure = (
        "Give a reference_law, ReferenceLaw(mean, sd) about three times as wide as the posterior, "
        "or prior_data"
    )
    if lowest == 0.0:
        return (
            f"without a reference law the extended target of {name} is improper, as of nearly "
            "every Stan program, unless the support of its unconstrained parameters is bounded (or "
            "it has one parameter only, with Gaussian tails): hot pseudo-samples may drift away "
            f"for ever. {cure}, or keep temperatures above zero."
        )
    return (
        f"without a reference law the extended target of {name} is improper if the power "
        f"{lowest:g} of its density is: so it is for parameters with heavy tails (Student t, "
        f"Cauchy), unless their support is bounded. {cure}."
    )


def _calibrated(target: Target) -> Source:
    """Return the C functions of chain 0, with the constant by which their two kinds differ.

    Where it is none, or cannot be found, values are asked for as gradients are, which is slower.
    """
    source, rng = source_of(target.density()), np.random.default_rng(17)
    if source.value_propto:
        return source
    offsets: list[float] = []
    for _ in range(TRIES):
        position = rng.uniform(-RADIUS, RADIUS, target.dim)
        offset = target.value(position) - target.evaluate(position)[0]
        if np.isfinite(offset):
            offsets.append(offset)
        if len(offsets) == 2:
            break
    scale = 1.0 + max(map(abs, offsets), default=0.0)
    if len(offsets) == 2 and abs(offsets[0] - offsets[1]) < AGREEMENT * scale:
        return source._replace(offset=offsets[0])
    return source._replace(value_propto=1)


def _of_chain(target: Target, source: Source, chain: int) -> Source:
    own = source_of(target.density(chain), source.offset)
    return own._replace(value_propto=source.value_propto)
