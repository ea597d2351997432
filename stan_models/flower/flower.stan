// A flower: a band around a closed curve with petals in the plane of the first two coordinates, the
// others standard normal. For seeing whether a sampler adapts to the place where it is.
//
// F(radius, amplitude, petals, variance) of Sejdinovic et al. (2014), "Kernel adaptive
// Metropolis-Hastings"; flower.json is their F(10, 6, 6, 1) in 8 dimensions. The density is defined
// on x, so that no Jacobian belongs to the polar coordinates. At the origin the angle, and with it
// the gradient, does not exist: only a sampler that needs none may start there.
functions {
  // from the curve, along the ray from the origin
  real distance_to_curve(vector x, real radius, real amplitude, real petals) {
    return hypot(x[1], x[2]) - radius - amplitude * cos(petals * atan2(x[2], x[1]));
  }
}
data {
  int<lower=2> N;
  real<lower=0> radius;
  real amplitude;
  int<lower=1> petals;
  real<lower=0> variance;
}
parameters {
  vector[N] x;
}
model {
  target += -square(distance_to_curve(x, radius, amplitude, petals)) / (2 * variance);
  tail(x, N - 2) ~ std_normal();
}
generated quantities {
  // chi-squared with N - 1 degrees of freedom, where the band keeps clear of the origin
  real radius_squared = square(distance_to_curve(x, radius, amplitude, petals)) / variance
                        + dot_self(tail(x, N - 2));
}
