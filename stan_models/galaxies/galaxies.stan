// A mixture of three normal distributions with ordered means and weights on a simplex: the
// velocities of 82 galaxies, in km/s.
//
// Roeder (1990), "Density estimation with confidence sets exemplified by superclusters and voids in
// the galaxies". The three share one standard deviation. With one each, two explanations of the
// largest group compete: a single distribution, or a narrow one within a wide one.
data {
  int<lower=1> N;
  int<lower=1> K;
  vector[N] velocity; // km/s
  vector[K] prior_means;
  real<lower=0> sd_means;
}
parameters {
  simplex[K] weights;
  ordered[K] means;
  real<lower=0> sigma; // km/s
}
model {
  vector[K] log_weights = log(weights);
  weights ~ dirichlet(rep_vector(2, K));
  means ~ normal(prior_means, sd_means);
  sigma ~ lognormal(log(1000), 1);
  for (n in 1 : N) {
    vector[K] parts = log_weights;
    for (k in 1 : K) {
      parts[k] += normal_lpdf(velocity[n] | means[k], sigma);
    }
    target += log_sum_exp(parts);
  }
}
