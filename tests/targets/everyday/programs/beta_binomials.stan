// Batting averages: a population of rates by mean and count.
data {
  int N;
  array[N] int<lower=0> K;
  array[N] int<lower=0> y;
}
parameters {
  real<lower=0, upper=1> phi;
  real<lower=1> kappa;
}
model {
  phi ~ beta(2, 2);
  kappa ~ gamma(2, 0.05);  // beyond 1e12, Stan's beta_binomial has lost all its digits
  y ~ beta_binomial(K, phi * kappa, (1 - phi) * kappa);
}
generated quantities {
  vector[N] theta;
  for (n in 1:N) theta[n] = beta_rng(phi * kappa + y[n], (1 - phi) * kappa + K[n] - y[n]);
}
