// Eight schools, centered: the effects are parameters themselves, which makes a funnel. For seeing
// how a sampler fails, or does not, where the scale of eight parameters depends on a ninth.
//
// Data: Rubin (1981); Gelman et al., "Bayesian Data Analysis", third edition, section 5.5.
data {
  int<lower=1> J;
  vector[J] y;
  vector<lower=0>[J] sigma;
}
parameters {
  real mu;
  real<lower=0> tau;
  vector[J] theta;
}
model {
  mu ~ normal(0, 5);
  tau ~ cauchy(0, 5);
  theta ~ normal(mu, tau);
  y ~ normal(theta, sigma);
}
generated quantities {
  vector[J] log_lik;
  array[J] real y_rep = normal_rng(theta, sigma);
  for (j in 1 : J) {
    log_lik[j] = normal_lpdf(y[j] | theta[j], sigma[j]);
  }
}
