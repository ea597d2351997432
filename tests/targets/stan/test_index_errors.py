"""An index out of range is the user's mistake: index, size, line and source are named."""

import numpy as np
import pytest

import stanadapt as sa
from tests.helpers.codes import raises

DATA = {"N": 50, "x": np.zeros(50), "X": np.zeros((50, 2)), "g": [1] * 10 + [3] * 40}
HEAD = "data { int N; vector[N] x; matrix[N, 2] X; array[N] int g; }\n"
MODEL = "parameters { vector[2] mu; } model { mu ~ normal(0, 1);\n"
NATIVE = pytest.param("cmdstan", marks=[pytest.mark.cmdstan, pytest.mark.slow])


@pytest.mark.parametrize(("statement", "facts"), [
    ("mu[1] ~ normal(x[51], 1);", ["51", "50 elements", "line 3", "x[51]"]),
    ("x ~ normal(mu[g], 1);", ["index 3", "2 elements", "line 3", "g[11] is 3"]),
    ("for (i in 1:N) x[i] ~ normal(mu[g[i]], 1);", ["index 3", "2 elements", "g[11] is 3"]),
    ("for (i in 1:N) target += X[i, 3];", ["index 3", "2 elements", "line 3"]),
    ("for (i in 1:3) target += mu[i];", ["index 3", "2 elements"]),
    ("x[2:60] ~ normal(0, 1);", ["60", "50 elements", "line 3"]),
])  # fmt: skip
def test_the_embedded_backend(statement, facts):
    with raises("index_out_of_range", *facts):
        sa.Target(f"{HEAD}{MODEL}{statement} }}", DATA)


@pytest.mark.parametrize("backend", ["stanli", NATIVE])
def test_transformed_data(backend):
    code = f"{HEAD}transformed data {{ real z = x[N + 1]; }}\n{MODEL} }}"
    with raises("index_out_of_range", "51", "50 elements"):
        sa.Target(code, DATA, backend=backend)


@pytest.mark.cmdstan
@pytest.mark.slow
def test_compiled_programs_say_so_at_the_start():
    code = f"{HEAD}{MODEL}x ~ normal(mu[g], 1); }}"
    target = sa.Target(code, DATA, backend="cmdstan")
    with raises("index_out_of_range", "index 3", "2 elements", "line 3", "g[11] is 3"):
        sa.sample(target)
