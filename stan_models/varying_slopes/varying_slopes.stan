// Varying intercepts and slopes with a correlation between them, not centered: reaction times in
// milliseconds over ten days with little sleep, for 18 drivers.
//
// The correlation has an LKJ prior, on its Cholesky factor. Belenky et al. (2003), "Patterns of
// performance degradation and restoration during sleep restriction and subsequent recovery".
data {
  int<lower=1> N;
  int<lower=1> J;
  array[N] int<lower=1, upper=J> driver;
  vector<lower=0>[N] days;
  vector<lower=0>[N] reaction; // ms
}
parameters {
  real alpha; // ms
  real beta; // ms per day
  vector<lower=0>[2] tau; // standard deviations of the drivers' intercepts and slopes
  cholesky_factor_corr[2] L;
  matrix[2, J] z;
  real<lower=0> sigma;
}
model {
  matrix[J, 2] effects = (diag_pre_multiply(tau, L) * z)';
  alpha ~ normal(300, 100);
  beta ~ normal(0, 25);
  tau[1] ~ normal(0, 50);
  tau[2] ~ normal(0, 20);
  L ~ lkj_corr_cholesky(2);
  to_vector(z) ~ std_normal();
  sigma ~ normal(0, 50);
  reaction ~ normal(alpha + effects[driver, 1] + (beta + effects[driver, 2]) .* days, sigma);
}
