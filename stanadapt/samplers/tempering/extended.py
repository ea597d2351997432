"""The pseudo-extension of a Stan program, which any sampler can sample: the user's interface.

See `samplers/tempering/pseudo_extension.py` for the mathematics. A position is (x_1, ..., x_N) and,
if temperatures are free, (u_1, ..., u_N); every x_i is an unconstrained position of the program.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from stanadapt import results
from stanadapt.engine.density import Density, value, value_and_gradient
from stanadapt.errors import Message, StanadaptError, require_whole, warn
from stanadapt.samplers.tempering import pseudo_extension as pseudo
from stanadapt.samplers.tempering.pseudo_extension import COLLAPSED, FIXED, FREE, ExtensionDesign
from stanadapt.samplers.tempering.reference_distribution import (
    ReferenceDistribution,
    recorded_reference,
)
from stanadapt.samplers.variational import pathfinder
from stanadapt.samplers.variational.gaussian import log_densities
from stanadapt.targets.constrainer import TransformedDraws
from stanadapt.targets.target import (
    Data,
    Samplable,
    Target,
    check_same_target,
    require_exact_density,
    require_target,
)

MODES = {"free": FREE, "fixed": FIXED, "collapsed": COLLAPSED}
RADIUS = 2.0  # radius of initial values of u, as for Stan's other unconstrained parameters
CLIMBS, MASS_DRAWS = 16, 25  # see `log_mass`
TRIES, AGREEMENT = 100, 1e-9  # see `_calibrate_source`


def read_design(
    count: int, temperature: Any, between: Any, fixed_at: Any, ladder: Any
) -> ExtensionDesign:
    """Return the design for options of `Extended`; StanadaptError for a wrong option."""
    mode = _read("temperature", temperature)
    if mode == FIXED:
        if ladder is not None:
            raise _conflict("a fixed temperature needs no ladder: leave one of the two out.")
        b = _read("fixed_at", fixed_at)
        return ExtensionDesign(count, mode, b, b, *pseudo.NO_LADDER)
    if mode == COLLAPSED:
        if ladder is None:
            raise _conflict(
                "collapsed temperatures are summed over a ladder: give ladder=(temperatures, "
                'log_normalizers), or use temperature="free".'
            )
        temperatures, log_normalizers = _read("ladder", ladder)
        none = np.empty((4, 0))
        return ExtensionDesign(count, mode, 0.0, 1.0, temperatures, log_normalizers, none)
    low, high = _read("between", between)
    if ladder is None:
        return ExtensionDesign(count, mode, low, high, *pseudo.NO_LADDER)
    temperatures, log_normalizers = _read("ladder", ladder)
    if temperatures[0] > low:
        raise StanadaptError(
            "invalid_ladder",
            f"extended: ladder begins at {temperatures[0]:g}, above the lowest temperature "
            f"{low:g}: extend it, or use between=({temperatures[0]:g}, {high:g}).",
        )
    from scipy.interpolate import PchipInterpolator  # takes 0.3 s: imported only for a ladder

    cubics = np.ascontiguousarray(PchipInterpolator(temperatures, log_normalizers).c)
    return ExtensionDesign(count, mode, low, high, temperatures, log_normalizers, cubics)


class Option(NamedTuple):
    """What an option of `Extended` must be, and the function that reads it, or fails."""

    must_be: str
    read: Callable[[Any], Any]
    code: str = "extension_option"


def _read(name: str, value: Any) -> Any:
    option = OPTIONS[name]
    try:
        return option.read(value)
    except (TypeError, ValueError, LookupError):
        raise StanadaptError(
            option.code, f"extended: {name} must be {option.must_be}, got {value!r}."
        ) from None


def _inverse_temperature(value: Any) -> float:
    number = float(value)
    if not 0.0 <= number <= 1.0:
        raise ValueError
    return number


def _between(value: Any) -> tuple[float, float]:
    low, high = map(_inverse_temperature, value)
    if low >= high:
        raise ValueError
    return low, high


def _ladder(value: Any) -> tuple[np.ndarray, np.ndarray]:
    b, log_normalizers = (np.array(part, dtype=float) for part in value)
    increasing = b.ndim == 1 and len(b) > 1 and np.all(np.diff(b) > 0) and b[0] >= 0 and b[-1] == 1
    if not (increasing and log_normalizers.shape == b.shape and np.isfinite(log_normalizers).all()):
        raise ValueError
    return b, log_normalizers


def _reference(value: Any) -> ReferenceDistribution:
    if not isinstance(value, ReferenceDistribution):
        raise TypeError
    return value


OPTIONS = {
    "temperature": Option(f"one of {', '.join(MODES)}", MODES.__getitem__),
    "fixed_at": Option("an inverse temperature in [0, 1]", _inverse_temperature),
    "between": Option(
        "the lowest and the highest inverse temperature in [0, 1], which differ (for a single one "
        'use temperature="fixed")',
        _between,
    ),
    "ladder": Option(
        "(temperatures, log_normalizers), at least two finite numbers each, as many of the one as "
        "of the other, and temperatures must increase in [0, 1] and end at 1",
        _ladder,
        "invalid_ladder",
    ),
    "reference_distribution": Option(
        "a ReferenceDistribution(mean, sd), which stanadapt.runs.reference.fit_reference makes "
        "from Pathfinder or a fit",
        _reference,
    ),
}


def _conflict(text: str) -> StanadaptError:
    return StanadaptError("extension_conflict", f"extended: {text}")


class Extended(Samplable):
    """N pseudo-samples of a target, each at its own temperature.

    For posteriors with several modes: a hot pseudo-sample moves between the modes and gains
    weight if its density exceeds that of the others. The draws of a run are ordinary draws of the
    program: one pseudo-sample per iteration, chosen by weight.

    Parameters
    ----------
    target : Target
        The program and its data.
    pseudo_samples : int
        N, at least 1. Each evaluation costs N evaluations of the target, and N more with
        `prior_data`; each saved draw costs N values of either density, for its weights.
    temperature : str
        Treatment of the inverse temperatures b (b = 1 is the target itself): "free": each moves
        within `between`; "fixed": all equal `fixed_at`; "collapsed": each is summed over `ladder`.
    between : pair of float
        Lowest and highest free inverse temperature, 0 <= lowest < highest <= 1.
    fixed_at : float
        The fixed inverse temperature, in [0, 1].
    reference_distribution : ReferenceDistribution, optional
        p0, the distribution at b = 0: at b the instrumental distribution is target^b p0^(1 - b).
        Default: target^b, as published, which is often improper; a warning reports this.
    prior_data : mapping, str or path, optional
        Alternatively, data of the same program, for example without observations: p0 is then the
        density with these data. It must be proper; its normalizing constant need not be known. The
        sizes of parameters must not depend on the data that change.
    ladder : pair of sequences of float, optional
        Inverse temperatures, increasing up to 1, and at each the log normalizing constant of the
        instrumental distribution, up to one common constant, with the target's density as
        `target.evaluate` returns it and p0 normalized. Free temperatures then have g(b) = 1 / Z(b),
        which makes b uniform under the instrumental distribution; log Z is interpolated by monotone
        cubics. Without a ladder, g is flat, and the density is divided by an estimate of its
        integral, so that constants of a program, which `~` drops, change nothing.
    learned : fit, optional
        Instead of reference_distribution and ladder: a fit of the same program by
        parallel_tempering or pseudo_extended, in which the first chain has learned both.

    Raises
    ------
    StanadaptError
        Stage "settings" or "data".

    Examples
    --------
    >>> import stanadapt as sa
    >>> from stanadapt.samplers.tempering.extended import Extended
    >>> from stanadapt.samplers.tempering.reference_distribution import ReferenceDistribution
    >>> target = sa.Target(
    ...     "parameters { real x; } model { x ~ normal(1, 2); }",
    ...     backend="stanli", show_progress=False,
    ... )
    >>> extended = Extended(target, 3, reference_distribution=ReferenceDistribution([0.0], 6.0))
    >>> extended.dim, extended.target is target
    (6, True)
    >>> fit = sa.sample(
    ...     extended, "nuts", iter_warmup=200, iter_sampling=200, seed=1, show_progress=False
    ... )  # doctest: +SKIP
    """

    _warns = True  # `remake_extended` does not repeat the warning

    def __init__(
        self,
        target: Target,
        pseudo_samples: int = 2,
        *,
        temperature: str = "free",
        between: Sequence[float] = (0.0, 1.0),
        fixed_at: float = 0.5,
        reference_distribution: ReferenceDistribution | None = None,
        prior_data: Data = None,
        ladder: Sequence[Any] | None = None,
        learned: Any = None,
    ) -> None:
        self._base = _require_extensible(target)
        if learned is not None:
            if not (reference_distribution is None and prior_data is None and ladder is None):
                raise _conflict(
                    "`learned` supplies reference_distribution and ladder: leave these and "
                    "prior_data out."
                )
            reference_distribution, ladder = _read_learned(self._base, learned)
        self._options = {
            "pseudo_samples": pseudo_samples, "temperature": temperature, "between": between,
            "fixed_at": fixed_at, "reference_distribution": reference_distribution,
            "ladder": ladder,
        }  # fmt: skip
        self.name = self._base.name
        self.pseudo_samples = require_whole("pseudo_samples", pseudo_samples, 1)
        self.temperature = temperature
        self._design = read_design(self.pseudo_samples, temperature, between, fixed_at, ladder)
        self.dim = pseudo.extended_dim(self._design, self._base.dim)
        self._reference, self._prior = None, None
        if prior_data is not None:
            if reference_distribution is not None:
                raise _conflict("give either reference_distribution or prior_data.")
            self._prior = self._base.with_prior_data(prior_data)
        elif reference_distribution is not None:
            reference = _read("reference_distribution", reference_distribution)
            self._reference = reference.compiled(self._base.dim)
        elif self.pseudo_samples > 1 and self._warns:
            warn(Message("improper_extension", _describe_impropriety(self)))
        self._targets = [t for t in (self._base, self._prior) if t is not None]
        # log normalizers of a ladder refer to the density as it is, and equal temperatures to none
        free = self._design.mode == FREE and not self._design.ladder.size
        compared = free and self.pseudo_samples > 1
        self._sources = [
            _calibrate_source(t)._replace(level=log_mass(t) if compared else 0.0)
            for t in self._targets
        ]
        self.evaluations_per_call = self.pseudo_samples
        self.description = self._describe(reference_distribution)

    @property
    def target(self) -> Target:
        """The program and its data."""
        return self._base

    @property
    def has_pseudo_samples(self) -> bool:
        """True: a position consists of pseudo-samples."""
        return True

    @property
    def options(self) -> dict[str, Any]:
        """Arguments besides the target that make an equal object; data are JSON text."""
        prior_data = self._prior.data if self._prior is not None else None
        return {**self._options, "prior_data": prior_data}

    @property
    def remake(self) -> Callable[[Target], Samplable]:
        """Function that makes an equal object from an equal `target`."""
        return partial(remake_extended, options=self.options)

    def __reduce__(self) -> tuple:
        """Pickle and copy the arguments, since densities contain addresses."""
        return self.remake, (self._base,)

    @property
    def min_inverse_temperature(self) -> float:
        """The smallest inverse temperature that a pseudo-sample can have."""
        design = self._design
        return design.low if design.mode != COLLAPSED else float(design.ladder[0])

    def __repr__(self) -> str:
        return (
            f"Extended({self.name!r}, {self.pseudo_samples} pseudo-samples, {self.temperature}, "
            f"{self.dim} parameters)"
        )

    def _describe(self, reference: ReferenceDistribution | None) -> dict[str, Any]:
        design = self._design
        kind = repr(reference) if self._prior is None else "prior_data"
        description = {
            "pseudo_samples": self.pseudo_samples,
            "temperature": self.temperature,
            "reference_distribution": "none" if kind == "None" else kind,
        }
        if design.mode != COLLAPSED:
            description["temperature_range"] = [design.low, design.high]
        if design.ladder.size:
            description["ladder"] = design.ladder
            description["ladder_log_normalizers"] = design.log_normalizers
        if self._prior is not None:
            description["prior_data_hash"] = self._prior.data_hash
        return description

    def density(self, chain: int = 0) -> Density:
        """Make a density with its own memory, for one chain. This object must outlive it."""
        sources = [
            pseudo.source_of(target.density(chain))._replace(
                value_propto=source.value_propto, offset=source.offset, level=source.level
            )
            for target, source in zip(self._targets, self._sources, strict=True)
        ]
        return pseudo.make_extended(
            self._design, self._base.dim, sources[0], self._reference, *sources[1:]
        )

    def value(self, position: np.ndarray) -> float:
        """Return the log density, or -inf if it is not finite."""
        return value(self.density(), np.array(position, dtype=float))

    def evaluate(self, position: np.ndarray) -> tuple[float, np.ndarray, str]:
        """Return log density and gradient, and a message if they are not finite."""
        position, gradient = np.array(position, dtype=float), np.empty(self.dim)
        log_density = value_and_gradient(self.density(), position, gradient)
        if np.isfinite(log_density):
            return log_density, gradient, ""
        return -np.inf, np.full(self.dim, np.nan), self._failure(position)

    def _failure(self, position: np.ndarray) -> str:
        parts = ((self._base, ""), (self._prior, " under prior_data"))
        for i, x in enumerate(self._program_positions(position), 1):
            for target, data in parts:
                log_density, slope, message = target.evaluate(x) if target else (0.0, 0.0, "")
                if message:
                    return f"pseudo-sample {i}{data}: {message}"
                if not np.isfinite(log_density):
                    return f"pseudo-sample {i}{data}: the log density is {log_density}"
                if not np.all(np.isfinite(slope)):
                    return f"pseudo-sample {i}{data}: the gradient is not finite"
        return "a pseudo-sample is too far out for a finite reference density"

    def _program_positions(self, positions: np.ndarray) -> np.ndarray:
        n, dim = self.pseudo_samples, self._base.dim
        return positions[..., : n * dim].reshape(*positions.shape[:-1], n, dim)

    def initial_position(
        self, draw: Callable[[], np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        """Return an initial position: one of the program per x_i, every u_i uniform on (-2, 2)."""
        free = self.pseudo_samples if self._design.mode == FREE else 0
        positions = [draw() for _ in range(self.pseudo_samples)]
        return np.concatenate([*positions, rng.uniform(-RADIUS, RADIUS, free)])

    def split_positions(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Split positions, shape (chain, draw, dim), into pseudo-samples.

        Returns the program's positions, shape (chain, draw, pseudo, dim), and, each of shape
        (chain, draw, pseudo), the inverse temperatures (if collapsed, their means given the
        positions) and the weights.
        """
        shape = (*positions.shape[:2], self.pseudo_samples)
        temperatures, weights = np.empty(shape), np.empty(shape)
        density = self.density()
        extension = pseudo.extension_of(density)
        for chain, rows in enumerate(positions):
            pseudo.weigh(extension, np.array(rows), temperatures[chain], weights[chain])
        return self._program_positions(positions), temperatures, weights

    def constrainer(self, seed: int, chain: int = 0) -> "Resampler":
        """Make a callable that turns the draws of one chain into draws of the program."""
        return Resampler(self, seed, chain)


def remake_extended(target: Target, options: dict[str, Any]) -> Extended:
    """Make an `Extended` with the options of another, without repeating its warning."""
    extended = Extended.__new__(Extended)
    extended._warns = False
    Extended.__init__(extended, target, **options)
    return extended


class Resampler(TransformedDraws):
    """Choice of one pseudo-sample per draw, by weight, and its transform to the constrained scale.

    It has its own generator and uses one random number per row, so that chunks do not matter.
    """

    def __init__(self, extended: Extended, seed: int, chain: int) -> None:
        super().__init__(extended.target.constrainer(seed, chain), self._chosen)
        self._density, self._count = extended.density(chain), extended.pseudo_samples
        self._extension = pseudo.extension_of(self._density)
        self._dim, self._rng = extended.target.dim, np.random.default_rng((seed, self._count))

    def _chosen(self, positions: np.ndarray) -> np.ndarray:
        shape, picked = (len(positions), self._count), np.empty((len(positions), self._dim))
        temperatures, weights = np.empty(shape), np.empty(shape)
        pseudo.weigh(self._extension, positions, temperatures, weights)
        pseudo.choose(positions, weights, self._rng, picked)
        return picked

    def state(self) -> dict[str, Any]:
        """Return the state from which `resume` continues."""
        return {"rng": self._rng.bit_generator.state, "base": self._constrain.state()}

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from the state of another object with the same seed."""
        self._rng.bit_generator.state = state["rng"]
        self._constrain.resume(state["base"])


def _require_extensible(target: Any) -> Target:
    if isinstance(target, Extended):
        raise StanadaptError(
            "not_extensible",
            "extended: the target is already an Extended: raise its pseudo_samples instead.",
        )
    require_exact_density(
        require_target(target), "not_extensible", "extended: ",
        "a power of an estimate is biased. Make the target without `noise`, so that the noise is "
        "sampled like the other parameters.",
    )  # fmt: skip
    return target


def _read_learned(
    target: Target, fit: Any
) -> tuple[ReferenceDistribution, tuple[np.ndarray, np.ndarray]]:
    """Return the reference distribution and the ladder of a fit's first chain."""
    is_fit = results.is_fit(fit)
    if not is_fit or "tempering" not in results.group_names(fit):
        source = f"one of {results.attribute(fit, 'sampler', 'Stan')}" if is_fit else repr(fit)
        raise StanadaptError(
            "nothing_learned",
            "extended: `learned` must be a result of parallel_tempering or pseudo_extended, got "
            f"{source}.",
        )
    check_same_target(target, fit)
    group = results.dataset(fit, "tempering").isel(chain=0)
    if "reference_mean" not in group:
        raise StanadaptError(
            "nothing_learned",
            "extended: the fit in `learned` has not learned a reference distribution, since one "
            "was given: give that reference_distribution or prior_data instead of `learned`, or "
            "sample the target without them.",
        )
    present = np.isfinite(group["temperature"].values)  # shorter ladders are padded with NaN
    columns = (group[name].values[present] for name in ("temperature", "log_normalizer"))
    return recorded_reference(group), tuple(columns)


def _describe_impropriety(extended: Extended) -> str:
    lowest, name = extended.min_inverse_temperature, extended.name
    cure = (
        "Give a reference_distribution, ReferenceDistribution(mean, sd) about three times as wide "
        "as the posterior, or prior_data"
    )
    if lowest == 0.0:
        return (
            f"without a reference distribution the extended target of {name} is improper, as for "
            "nearly every Stan program, unless the support of its unconstrained parameters is "
            "bounded (or it has a single parameter, with Gaussian tails): hot pseudo-samples may "
            f"drift away indefinitely. {cure}, or keep inverse temperatures above zero."
        )
    return (
        f"without a reference distribution the extended target of {name} is improper if its "
        f"density to the power {lowest:g} is: this happens with heavy-tailed parameters "
        f"(Student t, Cauchy), unless their support is bounded. {cure}."
    )


def _calibrate_source(target: Target) -> pseudo.Source:
    """Return the C functions of chain 0, with the constant by which values and gradients differ.

    If the difference is not constant, or cannot be measured, values are evaluated without the
    constants, as gradients are, which is slower.
    """
    source, rng = pseudo.source_of(target.density()), np.random.default_rng(17)
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


def log_mass(target: Target) -> float:
    """Estimate the log integral of a density, from Gaussians to which a few climbs lead.

    It need not be precise, but grows with a constant that is added to the log density. It is 0 if
    there is no Gaussian, and always the same for the same target.
    """
    density, parts, positions = target.density(), [], []
    for rng in np.random.default_rng(17).spawn(CLIMBS):
        start = rng.uniform(-RADIUS, RADIUS, target.dim)
        z = rng.standard_normal((MASS_DRAWS, target.dim))
        found = pathfinder.find(
            density, start, rng, history=6, elbo_draws=4, max_iterations=200
        ).best
        if found is not None:
            parts.append(found)
            positions.append(found.place(z))
    if not parts:
        return 0.0
    drawn = np.concatenate(positions)
    weights = log_densities(density, drawn) - pathfinder.mixture_log_density(parts, drawn)
    mass = logsumexp(weights) - np.log(len(weights))
    return float(mass) if np.isfinite(mass) else 0.0
