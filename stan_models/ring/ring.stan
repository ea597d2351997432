// A ring: a thin band around a circle in the plane of the first two coordinates, the others
// standard normal. The simplest target whose covariance says nothing about where to move.
//
// The flower of Sejdinovic et al. (2014), "Kernel adaptive Metropolis-Hastings", without petals;
// ring.json is the one of their code, radius 3.5 and variance 0.05 in 2 dimensions. nice.json, radius
// 2 and variance 0.08, is that of Song, Zhao and Ermon (2017), "A-NICE-MC: Adversarial Training for
// MCMC". The density is defined on x, without a Jacobian; at the origin it has no gradient.
data {
  int<lower=2> N;
  real<lower=0> radius;
  real<lower=0> variance;
}
parameters {
  vector[N] x;
}
model {
  target += -square(hypot(x[1], x[2]) - radius) / (2 * variance);
  tail(x, N - 2) ~ std_normal();
}
generated quantities {
  // chi-squared with N - 1 degrees of freedom, where the band keeps clear of the origin
  real radius_squared = square(hypot(x[1], x[2]) - radius) / variance + dot_self(tail(x, N - 2));
}
