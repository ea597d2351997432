// Independent normal distributions with standard deviations 1/N, 2/N, ..., 1 (N = 100: 0.01 to 1).
// For checking that a sampler learns very different scales: every moment is known exactly.
//
// Neal (2011), "MCMC using Hamiltonian dynamics"; also used by Titsias and Dellaportas (2019).
data {
  int<lower=1> N;
}
transformed data {
  vector[N] sds;
  for (n in 1 : N) {
    sds[n] = n / (1.0 * N);
  }
}
parameters {
  vector[N] x;
}
model {
  x ~ normal(0, sds);
}
