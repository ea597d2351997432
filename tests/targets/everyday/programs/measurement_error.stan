// A predictor measured with a known error, and an outcome of which some values are missing.
data {
  int N;
  vector[N] x_meas;
  real<lower=0> tau;
  int N_obs;
  int N_mis;
  array[N_obs] int<lower=1, upper=N> ii_obs;
  array[N_mis] int<lower=1, upper=N> ii_mis;
  vector[N_obs] y_obs;
}
parameters {
  vector[N] x;
  real mu_x;
  real<lower=0> sigma_x;
  real alpha;
  real beta;
  real<lower=0> sigma;
  vector[N_mis] y_mis;
}
transformed parameters {
  vector[N] y;
  y[ii_obs] = y_obs;
  y[ii_mis] = y_mis;
}
model {
  mu_x ~ normal(0, 3);
  sigma_x ~ exponential(1);
  x ~ normal(mu_x, sigma_x);
  x_meas ~ normal(x, tau);
  alpha ~ normal(0, 3);
  beta ~ normal(0, 3);
  sigma ~ exponential(1);
  y ~ normal(alpha + beta * x, sigma);
}
