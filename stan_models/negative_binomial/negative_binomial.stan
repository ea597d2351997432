// Negative binomial regression of counts with an exposure: the fish caught per square meter of sea
// floor that a net swept, by depth in meters.
//
// The variance of a count with mean m is m + (dispersion m)^2, so that zero dispersion is Poisson.
data {
  int<lower=1> N;
  int<lower=1> K;
  matrix[N, K] X;
  vector<lower=0>[N] exposure;
  array[N] int<lower=0> y;
  real mean_intercept;
  real<lower=0> sd_intercept;
  vector<lower=0>[K] sd_slopes;
}
transformed data {
  vector[N] log_exposure = log(exposure);
}
parameters {
  real alpha; // log rate per unit of exposure where X is zero
  vector[K] beta;
  real<lower=0> dispersion;
}
model {
  alpha ~ normal(mean_intercept, sd_intercept);
  beta ~ normal(0, sd_slopes);
  dispersion ~ normal(0, 1);
  y ~ neg_binomial_2_log(log_exposure + alpha + X * beta, inv_square(dispersion));
}
