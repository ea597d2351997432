// The same states by the built-in marginal.
data {
  int<lower=1> T;
  vector[T] y;
}
parameters {
  array[2] simplex[2] theta;
  ordered[2] mu;
  real<lower=0> sigma;
}
model {
  matrix[2, T] emissions;
  matrix[2, 2] moves = [theta[1]', theta[2]'];
  for (k in 1:2) theta[k] ~ dirichlet(rep_vector(2, 2));
  mu ~ normal(0, 3);
  sigma ~ exponential(1);
  for (t in 1:T) for (k in 1:2) emissions[k, t] = normal_lpdf(y[t] | mu[k], sigma);
  target += hmm_marginal(emissions, moves, [0.5, 0.5]');
}
