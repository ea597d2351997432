// A multivariate normal distribution with a known mean and covariance. For checking that a sampler
// learns strong correlations: every moment is known exactly.
//
// two_dim.json and fifty_one_dim.json are the 2- and 51-dimensional targets of Titsias and
// Dellaportas (2019), "Gradient-based Adaptive Markov Chain Monte Carlo".
data {
  int<lower=1> N;
  vector[N] mu;
  cov_matrix[N] Sigma;
}
transformed data {
  matrix[N, N] L = cholesky_decompose(Sigma);
}
parameters {
  vector[N] x;
}
model {
  x ~ multi_normal_cholesky(mu, L);
}
