// Two states by the forward algorithm, with the path sampled afterwards.
data {
  int<lower=1> K;
  int<lower=1> T;
  vector[T] y;
}
parameters {
  array[K] simplex[K] theta;
  ordered[K] mu;
  real<lower=0> sigma;
}
model {
  array[T] vector[K] gamma;
  for (k in 1:K) theta[k] ~ dirichlet(rep_vector(2, K));
  mu ~ normal(0, 3);
  sigma ~ exponential(1);
  for (k in 1:K) gamma[1, k] = -log(K) + normal_lpdf(y[1] | mu[k], sigma);
  for (t in 2:T) {
    for (k in 1:K) {
      vector[K] acc;
      for (j in 1:K) acc[j] = gamma[t - 1, j] + log(theta[j, k]) + normal_lpdf(y[t] | mu[k], sigma);
      gamma[t, k] = log_sum_exp(acc);
    }
  }
  target += log_sum_exp(gamma[T]);
}
