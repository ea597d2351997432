// Autoregression on a raw series, written as in the Stan User's Guide: the level of Lake Huron in
// feet, by year. Hard on purpose: intercept and coefficients are nearly collinear, since the level
// is hundreds of times its own standard deviation.
//
// A careful author would write the mean level as a parameter, which removes the difficulty. Many
// programs are not written with such care.
data {
  int<lower=1> K; // lags
  int<lower=K + 1> T;
  vector[T] y;
  real<lower=0> sd_intercept;
  real<lower=0> sd_noise;
}
transformed data {
  matrix[T - K, K] lagged;
  for (k in 1 : K) {
    lagged[ : , k] = y[K + 1 - k : T - k];
  }
}
parameters {
  real alpha;
  vector[K] phi;
  real<lower=0> sigma;
}
model {
  alpha ~ normal(0, sd_intercept);
  phi ~ normal(0, 1);
  sigma ~ normal(0, sd_noise);
  y[K + 1 : T] ~ normal(alpha + lagged * phi, sigma);
}
