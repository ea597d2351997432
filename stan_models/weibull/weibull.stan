// Weibull survival times with censoring: days until death of men with lung cancer, by treatment,
// Karnofsky score, months since diagnosis, age in years and type of cell.
//
// The inputs act on the logarithm of the scale: one more unit multiplies the days by exp(beta).
// Kalbfleisch and Prentice (1980), "The statistical analysis of failure time data".
data {
  int<lower=0> N; // dead
  int<lower=0> C; // alive when last seen
  int<lower=1> K;
  vector<lower=0>[N] days;
  vector<lower=0>[C] censored_days;
  matrix[N, K] X;
  matrix[C, K] X_censored;
  vector<lower=0>[K] sd_slopes;
}
parameters {
  real alpha;
  vector[K] beta;
  real<lower=0> shape;
}
model {
  alpha ~ normal(4, 3);
  beta ~ normal(0, sd_slopes);
  shape ~ lognormal(0, 0.5);
  days ~ weibull(shape, exp(alpha + X * beta));
  target += weibull_lccdf(censored_days | shape, exp(alpha + X_censored * beta));
}
