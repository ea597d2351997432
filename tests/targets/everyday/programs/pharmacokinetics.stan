// One compartment with absorption, in closed form, for several subjects.
data {
  int subjects;
  int T;
  vector[T] time;
  vector[subjects] dose;
  matrix<lower=0>[subjects, T] concentration;
}
parameters {
  real log_excess;  // of the rate of absorption over that of elimination
  real log_cl;
  real log_v;
  vector<lower=0>[2] omega;
  matrix[2, subjects] eta;
  real<lower=0> sigma;
}
transformed parameters {
  matrix[subjects, T] mu;
  for (i in 1:subjects) {
    real cl = exp(log_cl + omega[1] * eta[1, i]);
    real v = exp(log_v + omega[2] * eta[2, i]);
    real ke = cl / v;
    real ka = exp(log_cl - log_v) + exp(log_excess);
    mu[i] = (dose[i] * ka / (v * (ka - ke)) * (exp(-ke * time) - exp(-ka * time)))';
  }
}
model {
  log_excess ~ normal(0.5, 0.5);
  log_cl ~ normal(0.7, 0.7);
  log_v ~ normal(2.5, 0.3);
  omega ~ normal(0, 0.5);
  to_vector(eta) ~ std_normal();
  sigma ~ normal(0, 0.5);
  to_vector(concentration) ~ lognormal(log(to_vector(mu)), sigma);
}
