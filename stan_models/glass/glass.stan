// Gaussian process classification of glass into windows and other by 9 features, each with its own
// length-scale; the likelihood is estimated by importance sampling. For pseudo-marginal samplers:
// theta are the parameters, u is the noise.
//
// Model: f ~ N(0, K + ridge I), y[n] ~ bernoulli_logit(f[n]), theta[d] ~ normal(0, sqrt(5)). There
// are two conventions for K, with different posteriors, since theta has the same prior in both:
//   1: K[i, j] = exp(-sum_d (exp(theta[d]) (X[i, d] - X[j, d]))^2), of inverse length-scales: the
//      code of Sejdinovic et al. (2014), "Kernel adaptive Metropolis-Hastings"
//   2: K[i, j] = exp(-0.5 sum_d (X[i, d] - X[j, d])^2 / exp(theta[d])), of squared length-scales:
//      their text (which speaks of 8 features, where their code has these 9)
// X comes raw and is whitened here, as in their code: feature d becomes what features 1 to d - 1
// leave of it. SOURCE.md tells where it comes from.
//
// Estimate: with f = A v, A A' = K + ridge I, the posterior of v is nearly normal around its mode.
// Each column of u makes a sample v from that normal distribution, whose weight is joint density
// over density of the sample. The mean of M weights has expectation p(y | theta) wherever mode and
// factor lie, as long as these depend on theta alone: the posterior of theta is exact for any M and
// any number of Newton's steps. How many, and which, must not depend on u or on earlier positions.
functions {
  // K^-1 f for the mode f of p(f | y, theta), by Newton's method from f = 0, a fixed number of
  // steps; each factorises I + W^(1/2) K W^(1/2), W the curvature of the likelihood (Rasmussen and
  // Williams, 2006, "Gaussian processes for machine learning", section 3.4)
  vector laplace_weights(matrix K, vector y, int steps) {
    int N = rows(K);
    vector[N] a = rep_vector(0, N);
    for (step in 1 : steps) {
      vector[N] f = K * a;
      vector[N] p = inv_logit(f);
      vector[N] root = sqrt(p .* (1 - p));
      vector[N] b = square(root) .* f + y - p;
      // quad_form_diag would be slow where Stan programs are interpreted
      matrix[N, N] L = cholesky_decompose(add_diag(K .* (root * root'), 1));
      vector[N] half = mdivide_left_tri_low(L, root .* (K * b));
      a = b - root .* mdivide_right_tri_low(half', L)';
    }
    return a;
  }
  // log weights of the samples that the columns of u make
  vector log_weights(matrix K, array[] int y, matrix u, int steps) {
    int N = rows(K);
    int M = cols(u);
    matrix[N, N] A = cholesky_decompose(K);
    vector[N] mode = A' * laplace_weights(K, to_vector(y), steps);
    vector[N] p = inv_logit(A * mode);
    // of the precision of v at its mode, I + A' W A
    matrix[N, N] L = cholesky_decompose(
      add_diag(crossprod(diag_pre_multiply(sqrt(p .* (1 - p)), A)), 1));
    matrix[N, M] v = rep_matrix(mode, M) + mdivide_right_tri_low(u', L)';
    matrix[N, M] f = A * v;
    vector[M] result;
    for (m in 1 : M) {
      result[m] = bernoulli_logit_lpmf(y | f[ : , m])
                  + 0.5 * (dot_self(u[ : , m]) - dot_self(v[ : , m]));
    }
    return result - sum(log(diagonal(L)));
  }
}
data {
  int<lower=2> N;
  int<lower=1> D;
  int<lower=1> M; // importance samples
  real<lower=0> ridge;
  int<lower=1, upper=2> convention;
  matrix[N, D] X;
  array[N] int<lower=0, upper=1> y;
}
transformed data {
  // six leave less than 1e-12 of v at every prior draw of theta that was tried
  int newton_steps = 7;
  real factor = convention == 1 ? -1 : -0.5;
  real power = convention == 1 ? 2 : -1;
  // squared differences of the features after full whitening, a column each, so that K is one
  // product and one exponential
  matrix[N * N, D] squared_differences;
  {
    matrix[N, D] centered;
    matrix[D, D] L;
    matrix[N, D] Z;
    for (d in 1 : D) {
      centered[ : , d] = X[ : , d] - mean(X[ : , d]);
    }
    L = cholesky_decompose(crossprod(centered) / (N - 1));
    Z = mdivide_left_tri_low(L, centered')';
    for (d in 1 : D) {
      squared_differences[ : , d] = to_vector(
        square(rep_matrix(Z[ : , d], N) - rep_matrix(Z[ : , d]', N)));
    }
  }
}
parameters {
  vector[D] theta;
  matrix[N, M] u;
}
model {
  matrix[N, N] K = add_diag(
    to_matrix(exp(squared_differences * (factor * exp(power * theta))), N, N), ridge);
  theta ~ normal(0, sqrt(5));
  to_vector(u) ~ std_normal();
  target += log_sum_exp(log_weights(K, y, u, newton_steps)) - log(M);
}
