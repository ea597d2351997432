// Item response with discriminations, in long format.
data {
  int<lower=1> J;
  int<lower=1> K;
  int<lower=1> N;
  array[N] int<lower=1, upper=J> jj;
  array[N] int<lower=1, upper=K> kk;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  vector[J] theta;
  vector[K] b;
  vector<lower=0>[K] a;
  real mu_b;
  real<lower=0> sigma_b;
}
model {
  theta ~ std_normal();
  a ~ lognormal(0, 0.4);
  mu_b ~ normal(0, 2);
  sigma_b ~ normal(0, 1.5);
  b ~ normal(mu_b, sigma_b);
  y ~ bernoulli_logit(a[kk] .* (theta[jj] - b[kk]));
}
