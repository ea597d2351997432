// Gaussian process regression with the latent curve integrated out: the acceleration of a dummy's
// head, in g, in the milliseconds after a motorcycle crash.
//
// Silverman (1985), "Some aspects of the spline smoothing approach to non-parametric regression
// curve fitting". The noise is taken to be the same at all times.
data {
  int<lower=1> N;
  array[N] real time; // ms
  vector[N] acceleration; // g
}
parameters {
  real<lower=0> amplitude; // g
  real<lower=0> length_scale; // ms
  real<lower=0> sigma; // g
}
model {
  matrix[N, N] K = add_diag(gp_exp_quad_cov(time, amplitude, length_scale), square(sigma));
  amplitude ~ normal(0, 100);
  length_scale ~ inv_gamma(3, 20);
  sigma ~ normal(0, 50);
  acceleration ~ multi_normal_cholesky(rep_vector(0, N), cholesky_decompose(K));
}
