// Linear regression on inputs in their own units, pupils, dollars and shares: the slopes' standard
// deviations reach from 1e-4 to 3, and the intercept is 650.
//
// Nothing is centered or standardized, as in most programs that people write first. The priors'
// standard deviations are data, because they have the units of the data.
data {
  int<lower=1> N;
  int<lower=1> K;
  matrix[N, K] X;
  vector[N] y;
  real<lower=0> sd_intercept;
  vector<lower=0>[K] sd_slopes;
  real<lower=0> sd_noise;
}
parameters {
  real alpha;
  vector[K] beta;
  real<lower=0> sigma;
}
model {
  alpha ~ normal(0, sd_intercept);
  beta ~ normal(0, sd_slopes);
  sigma ~ normal(0, sd_noise);
  y ~ normal_id_glm(X, alpha, beta, sigma);
}
