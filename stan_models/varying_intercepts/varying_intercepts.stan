// Varying intercepts, centered: radon in houses of 85 counties, of which some have a single
// house and some a hundred. The usual first multilevel regression.
//
// Gelman and Hill (2007), "Data analysis using regression and multilevel/hierarchical models",
// chapter 12.
data {
  int<lower=1> N;
  int<lower=1> J;
  array[N] int<lower=1, upper=J> county;
  vector<lower=0, upper=1>[N] first_floor; // where it was measured; 0 is the basement
  vector[N] log_radon; // log of pCi/L
}
parameters {
  real mu;
  real<lower=0> tau;
  vector[J] alpha;
  real beta;
  real<lower=0> sigma;
}
model {
  mu ~ normal(0, 5);
  tau ~ normal(0, 1);
  alpha ~ normal(mu, tau);
  beta ~ normal(0, 5);
  sigma ~ normal(0, 2);
  log_radon ~ normal(alpha[county] + beta * first_floor, sigma);
}
