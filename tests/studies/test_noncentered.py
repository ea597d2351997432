"""The lines of Stan for vectors in a Gaussian block describe the same posterior."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.samplers.whitened.block_structure import find_block
from stanadapt.samplers.whitened.block_terms import hints_of
from stanadapt.studies.noncentered import lines_of_block
from stanadapt.targets.declared_bounds import declared_bounds

N = 9
HEAD = f"""data {{ vector[{N}] y; }}
parameters {{ real mu; vector[{N}] u; real<lower=0> s; real<lower=-1, upper=1> rho; }}
model {{
mu ~ normal(0, 1); s ~ lognormal(0, 1); y ~ normal(u, 0.7);
"""
AROUND = f"u[2:{N}] ~ normal(mu + rho * (u[1:{N - 1}] - mu), s);"
LOOP = f"for (t in 2:{N}) u[t] += rho * u[t - 1];"
# priors that stay and that are replaced, and the value of u that is written in their place
PROCESSES = {
    "walk": ("u[1] ~ normal(0, 2);", f"u[2:{N}] ~ normal(u[1:{N - 1}], s);",
             "cumulative_sum(append_row(u_1, s * u_raw));"),
    "steps twice as wide": ("u[1] ~ normal(0, 2);", f"u[2:{N}] ~ normal(u[1:{N - 1}], 2 * s);",
                            "cumulative_sum(append_row(u_1, 2 * s * u_raw));"),
    "known coefficient": ("u[1] ~ normal(0, 2);", f"u[2:{N}] ~ normal(0.5 * u[1:{N - 1}], s);",
                          f"append_row(u_1, s * u_raw); {LOOP.replace('rho', '0.5')}"),
    "groups": ("", "u ~ normal(mu, s);", "mu + s * u_raw;"),
    "stationary": ("", f"u[1] ~ normal(mu, s / sqrt(1 - square(rho))); {AROUND}",
                   f"s * u_raw; u[1] /= sqrt(1 - square(rho)); {LOOP} u += mu;"),
    "first alike": ("", f"u[1] ~ normal(mu, s); {AROUND}", f"s * u_raw; {LOOP} u += mu;"),
    "first apart": ("u[1] ~ normal(0, 2);", AROUND,
                    f"append_row(u_1 - mu, s * u_raw); {LOOP} u += mu;"),
}  # fmt: skip


def target_of(code):
    y = np.random.default_rng(1).standard_normal(N)
    return sa.Target(code, {"y": y}, backend="stanli", show_progress=False)


def written(kept, replaced):
    """A target, and the lines for its block."""
    target = target_of(f"{HEAD}{kept} {replaced} }}")
    x = np.random.default_rng(2).standard_normal((400, target.dim))
    g = np.array([target.evaluate(row)[1] for row in x])
    block = find_block(x, g, hints_of(declared_bounds(target)))
    return target, lines_of_block(target, block.map, x)


@pytest.mark.parametrize(("kept", "replaced", "value"), PROCESSES.values(), ids=PROCESSES)
def test_a_process_has_the_same_density_as_residuals(kept, replaced, value):
    centered, lines = written(kept, replaced)
    parameters, transformed, model = (line.partition(": ")[2] for line in lines)
    assert transformed == f"vector[{N}] u = {value}"
    code = HEAD.replace(f"vector[{N}] u;", parameters.partition("//")[0])
    code = code.replace("model {", f"transformed parameters {{ {transformed} }}\nmodel {{")
    other = target_of(f"{code}{kept} {model}\n}}")
    # on the same scale and coefficient, densities differ by a constant
    differences, columns = [], np.empty((1, len(other.column_names)))
    for row in np.random.default_rng(3).standard_normal((5, other.dim)):
        row[[other.coordinate_names.index(name) for name in ("s", "rho")]] = 0.3
        other.constrainer(1)(row[None], columns)
        names = [name.replace(".", "[") + "]" * ("." in name) for name in other.column_names]
        values = dict(zip(names, columns[0], strict=True)) | {"s": 0.3, "rho": 0.3}
        at = np.array([values[name] for name in centered.coordinate_names])
        differences.append(other.evaluate(row)[0] - centered.evaluate(at)[0])
    np.testing.assert_allclose(differences, differences[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "replaced",
    [
        f"u[1] ~ normal(0, s); u[2:{N}] ~ normal(u[1:{N - 1}] + 1, s);",  # a drift
        f"u[1:2] ~ normal(0, s); u[3:{N}] ~ normal(2 * u[2:{N - 1}] - u[1:{N - 2}], s);",
        f"u[1:2] ~ normal(0, 1); u[3:{N}] ~ normal(mu, s);",
        "u ~ normal(0, 1); y ~ normal(s * u, 1);",  # a likelihood
    ],
)
def test_of_another_process_nothing_is_written(replaced):
    assert written("", replaced)[1] == []
