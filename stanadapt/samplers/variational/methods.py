"""The methods of `approximate`: their settings, and how each finds Gaussians on the same target.

Where chains start with `inits="pathfinder"`: at draws of Pathfinder's approximation.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.engine.density import Density
from stanadapt.errors import StanadaptError, require_between, require_whole, warn
from stanadapt.samplers.variational import advi, laplace, pathfinder
from stanadapt.samplers.variational.gaussian import Gaussian
from stanadapt.samplers.whitened.fisher_metric import one_blas_thread
from stanadapt.targets.standardized import Standardized
from stanadapt.targets.target import Samplable, Target

# parameters that a sentence lists, and how much of a direction one must make up to be listed
NAMED, MUCH = 3, 0.3
# parameters beyond which a matrix of all pairs of parameters is not made
LARGEST_DENSE = 5000
# of iterations whose ELBO is compared, as a share of all; by how many errors, and by how much in
# log density, it must have risen to be told of
LAST_SHARE, RISING, LEAST_RISE = 0.1, 4.0, 0.1


class Fitted(NamedTuple):
    """What a method found.

    parts
        Gaussians in the coordinates of the target; several stand for their mixture.
    elbo
        Estimates of the evidence lower bound, shape (path, iteration), NaN where a path has ended.
    densities
        With the counters of what was spent.
    remarks
        What the user should know.

    """

    parts: list[Gaussian]
    elbo: np.ndarray
    densities: list[Density]
    remarks: list[str]


class PathfinderSettings(NamedTuple):
    """Settings of Pathfinder.

    paths
        Number of climbs, from as many starts; their Gaussians make a mixture.
    history
        Number of last steps of a climb that tell the curvature: the covariance differs from a
        diagonal matrix in up to twice as many directions.
    elbo_draws
        For each estimate of the ELBO, one per step of a climb.
    max_iterations
        Steps of a climb.

    """

    paths: int = 4
    history: int = 6
    elbo_draws: int = 25
    max_iterations: int = 1000


class AdviSettings(NamedTuple):
    """Settings of ADVI.

    algorithm
        "fullrank", a Gaussian with all correlations, or "meanfield", with none.
    iterations
        Steps of the stochastic gradient.
    grad_samples
        Draws for each step, one gradient each.
    learning_rate
        Length of the first steps, in standard deviations as Pathfinder estimates them; in (0, 1).

    """

    algorithm: str = "fullrank"
    iterations: int = 2000
    grad_samples: int = 10
    learning_rate: float = 0.05


class LaplaceSettings(NamedTuple):
    """Settings of Laplace's method.

    max_iterations
        Steps of the climb to the mode.

    """

    max_iterations: int = 1000


def fit_pathfinder(
    target: Samplable,
    settings: PathfinderSettings,
    starts: list[np.ndarray],
    rngs: list[np.random.Generator],
) -> Fitted:
    """Find one Gaussian per start."""
    densities = [target.density(i) for i in range(len(starts))]
    chosen = settings._asdict()
    del chosen["paths"]

    def find(i: int) -> pathfinder.Found:
        return pathfinder.find(densities[i], starts[i], rngs[i], **chosen)

    with one_blas_thread(), ThreadPoolExecutor() as pool:
        found = list(pool.map(find, range(len(starts))))
    parts = [one.best for one in found if one.best is not None]
    if not parts:
        raise _nothing_found(target, "the density failed around every point of the path")
    notes = []
    if len(parts) < len(found):
        notes.append(
            f"{len(found) - len(parts)} of {len(found)} paths are left out: the density failed "
            "around every point of them."
        )
    cut = sum(len(one.elbo) > settings.max_iterations for one in found)
    if cut:
        notes.append(
            f"{cut} of {len(found)} paths did not reach a mode in {settings.max_iterations} steps: "
            "the posterior may be improper, or raise max_iterations."
        )
    return Fitted(parts, _rows([one.elbo for one in found]), densities, notes)


def fit_advi(
    target: Samplable,
    settings: AdviSettings,
    starts: list[np.ndarray],
    rngs: list[np.random.Generator],
) -> Fitted:
    """Standardize by what Pathfinder finds, and climb the ELBO from there."""
    defaults = PathfinderSettings(paths=1)
    first = fit_pathfinder(target, defaults, starts[:1], rngs[:1])
    (rough,) = first.parts
    diagonal = settings.algorithm == "meanfield"
    with one_blas_thread():
        unit = rough.sd()[None] if diagonal else rough.triangle()
        moved = Standardized(target, rough.location, unit)
        density = moved.density()
        ended = advi.ascend(
            density, diagonal, settings.iterations, settings.grad_samples, settings.learning_rate,
            rngs[0],
        )  # fmt: skip
        location = moved.original(ended.location)
        factor = unit * ended.factor if diagonal else np.tril(unit) @ np.tril(ended.factor)
    elbo = ended.elbo + moved.log_volume + target.dropped_constant(location)
    part = Gaussian(location, np.ascontiguousarray(factor))
    notes = [*_rising(elbo), *_failed(ended.failed, elbo.size * settings.grad_samples)]
    return Fitted([part], elbo[None], [*first.densities, density], [*first.remarks, *notes])


def fit_laplace(
    target: Samplable,
    settings: LaplaceSettings,
    starts: list[np.ndarray],
    rngs: list[np.random.Generator],
) -> Fitted:
    """Climb to a mode, and take the curvature there."""
    density, history = target.density(), PathfinderSettings().history
    with one_blas_thread():
        found = laplace.find(
            density, starts[0], history=history, max_iterations=settings.max_iterations
        )
    if found.best is None:
        raise _nothing_found(target, found.problem + _main(target, found.flattest))
    return Fitted([found.best], np.empty((1, 0)), [density], [])


class Method(NamedTuple):
    """Class of the settings, fit, and whether it makes a dense matrix under given settings."""

    settings: Any
    fit: Callable[..., Fitted]
    is_dense: Callable[[Any], bool]


METHODS = {
    "pathfinder": Method(PathfinderSettings, fit_pathfinder, lambda settings: False),
    "advi": Method(AdviSettings, fit_advi, lambda settings: settings.algorithm == "fullrank"),
    "laplace": Method(LaplaceSettings, fit_laplace, lambda settings: True),
}


def choose_method(name: Any, given: dict[str, Any]) -> tuple[Method, Any]:
    """Return a method and its settings, checked; StanadaptError, stage "settings"."""
    if not isinstance(name, str) or name not in METHODS:
        known = ", ".join(METHODS)
        raise StanadaptError("settings", f"method must be one of {known}, got {name!r}.")
    method = METHODS[name]
    defaults = method.settings()
    for setting in given:
        if setting not in defaults._fields:
            known = ", ".join(defaults._fields)
            raise StanadaptError("settings", f"{name} has no setting {setting!r}; it has {known}.")
    return method, method.settings(**{
        setting: _checked(setting, given.get(setting, default))
        for setting, default in defaults._asdict().items()
    })  # fmt: skip


def _checked(name: str, value: Any) -> Any:
    if name == "algorithm":
        if value not in ("fullrank", "meanfield"):
            raise StanadaptError(
                "settings", f"algorithm must be fullrank or meanfield, got {value!r}."
            )
        return value
    if name == "learning_rate":
        return require_between(name, value, 0.0, 1.0)
    if isinstance(value, str) and value.isdecimal():  # from the command line
        value = int(value)
    return require_whole(name, value, 2 if name == "iterations" else 1)


def require_size(name: str, method: Method, settings: Any, dim: int) -> None:
    """Refuse a matrix of all pairs of very many parameters."""
    if method.is_dense(settings) and dim > LARGEST_DENSE:
        raise StanadaptError(
            "settings",
            f"{name} makes a matrix of all pairs of {dim} parameters, which takes too much memory: "
            "use method='pathfinder', or 'advi' with algorithm='meanfield'.",
        )


def _rows(traces: list[np.ndarray]) -> np.ndarray:
    """Traces of different lengths as rows, NaN after their ends."""
    table = np.full((len(traces), max(map(len, traces))), np.nan)
    for row, trace in zip(table, traces, strict=True):
        row[: len(trace)] = trace
    return table


def _rising(elbo: np.ndarray) -> list[str]:
    """A sentence where the ELBO was still rising at the end of the ascent."""
    last = max(2, int(LAST_SHARE * elbo.size))
    if elbo.size < 2 * last:
        return []
    one, other = elbo[-2 * last : -last], elbo[-last:]
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return []
    error = np.sqrt((one.var() + other.var()) / last)
    if other.mean() - one.mean() <= max(RISING * error, LEAST_RISE):
        return []
    return ["the ELBO was still rising when the ascent ended: raise iterations."]


def _failed(failed: int, total: int) -> list[str]:
    if not failed:
        return []
    return [
        f"{failed} of {total} draws of the ascent had no finite density and were left out of its "
        "gradients: the approximation reaches where the posterior does not."
    ]


def _main(target: Samplable, direction: np.ndarray | None) -> str:
    """Name the parameters that make up most of a direction."""
    if direction is None:
        return ""
    order = np.argsort(-np.abs(direction))[:NAMED]
    names = target.coordinate_names
    chosen = [names[i] for i in order if abs(direction[i]) > MUCH * np.abs(direction).max()]
    return f" (mainly {', '.join(chosen)})"


def _nothing_found(target: Samplable, why: str) -> StanadaptError:
    return StanadaptError(
        "sampling",
        f"no approximation of {target.name} was found: {why}. Start elsewhere (inits), check that "
        "priors or data bound every parameter, or use sample, which needs no mode.",
    )


def gaussians_of(fit: Any) -> list[Gaussian]:
    """Read the Gaussians of a result of `approximate`.

    Raises
    ------
    StanadaptError
        Stage "settings", for another object.

    """
    if not results.is_fit(fit) or "approximation" not in results.group_names(fit):
        raise StanadaptError("settings", f"a result of approximate is expected, got {fit!r}.")
    group = results.dataset(fit, "approximation")
    return [
        Gaussian(np.ascontiguousarray(location), np.ascontiguousarray(factor))
        for location, factor in zip(group["location"].values, group["factor"].values, strict=True)
    ]


PATHFINDER = "pathfinder"
TRIES = 25


def pathfinder_positions(
    target: Target, starts: list[np.ndarray], rngs: Sequence[np.random.Generator]
) -> list[np.ndarray]:
    """Return a position for every chain: a draw of the Gaussian found by a climb of its own.

    Chains share nothing, so that their disagreement still tells of modes and of warm-ups that are
    too short. Where a climb finds nothing, the chain starts where the climb did, with a warning.

    Parameters
    ----------
    target
        The program, whose density must have a gradient.
    starts, rngs
        One per chain: where its climb starts, and its randomness.

    """
    if target.noise:
        raise StanadaptError(
            "initialization",
            f"inits='{PATHFINDER}' follows gradients, but the density of {target.name} is an "
            f"estimate with noise {', '.join(target.noise)}: give other inits.",
        )
    settings = PathfinderSettings()._asdict()
    del settings["paths"]

    def position(i: int) -> np.ndarray | None:
        found = pathfinder.find(target.density(i), starts[i], rngs[i], **settings)
        if found.best is None:
            return None
        for _ in range(TRIES):
            drawn = found.best.draw(rngs[i], 1)[0]
            value, gradient, _ = target.evaluate(drawn)
            if np.isfinite(value) and np.isfinite(gradient).all():
                return drawn
        return None

    with one_blas_thread(), ThreadPoolExecutor() as pool:
        found = list(pool.map(position, range(len(starts))))
    lost = [str(i + 1) for i, drawn in enumerate(found) if drawn is None]
    if lost:
        warn(
            f"Pathfinder found no starting point for chain {', '.join(lost)} of {target.name}: it "
            "starts at random."
        )
    return [start if drawn is None else drawn for start, drawn in zip(starts, found, strict=True)]
