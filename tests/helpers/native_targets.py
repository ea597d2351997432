"""Targets of the native backends, each compiled once per session, and positions for them."""

import functools

import pytest

import stanadapt as sa
from stanadapt.targets.stan import bundled, toolchain
from tests.helpers import everyday_programs

# BridgeStan's own sources are tested too if they exist; they take a minute per program
NATIVE_BACKENDS = ["cmdstan", *(["bridgestan"] if toolchain.bridgestan_tree() else [])]
CASES = [(name, data) for name, program in bundled.available().items() for data in program.data]
EVERY_TYPE = """
data { int K; int none; }
parameters {
  real free;
  real<lower=-1> low;
  real<upper=2> high;
  real<lower=-1, upper=3> both;
  real<offset=1.5, multiplier=2> scaled;
  vector[none] nothing;
  vector<lower=0>[2] vlow;
  row_vector<upper=1>[2] row;
  matrix<lower=0, upper=1>[2, 3] grid;
  array[2, 2] real<lower=0> table;
  array[2] vector[3] vectors;
  array[2] matrix[2, 3] matrices;
  simplex[K] s;
  unit_vector[K] u;
  ordered[K] o;
  positive_ordered[K] po;
  cholesky_factor_corr[K] Lc;
  cholesky_factor_cov[K] Lv;
  cholesky_factor_cov[4, 3] tall;
  corr_matrix[K] C;
  cov_matrix[K] S;
  array[2] simplex[3] many_s;
  array[2] unit_vector[3] many_u;
  array[2] ordered[2] many_o;
  array[2] positive_ordered[2] many_po;
  array[2] cholesky_factor_corr[2] many_Lc;
  array[2] cholesky_factor_cov[2] many_Lv;
  array[2] corr_matrix[2] many_C;
  array[2] cov_matrix[2] many_S;
  array[0] simplex[3] no_s;
  matrix[none, 3] no_matrix;
}
model { }
"""
SIZES = {"K": 3, "none": 0}


@functools.cache
def make_target(backend, name, data=None):
    """Make a target, at the first call with these arguments."""
    if name == "every type":
        return sa.Target(EVERY_TYPE, SIZES, backend=backend)
    return sa.Target(*bundled.find(name, data), backend=backend)


@pytest.fixture(params=NATIVE_BACKENDS)
def backend(request):
    return request.param


@pytest.fixture
def every_type(backend):
    return make_target(backend, "every type")


@pytest.fixture
def schools(backend):
    return make_target(backend, "eight_schools_centered", "eight_schools")


def points(target, count=100, scale=1.0, seed=1):
    return everyday_programs.positions(target.name, target.dim, count, scale, seed)
