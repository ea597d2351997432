// Concentric rings in the plane, each a thin band around a circle. Between neighbors the density
// falls to 1/500, and outer rings hold more mass than inner ones, in proportion to their radius.
//
// "Lord of the rings", or ring5, of Song, Zhao and Ermon (2017), "A-NICE-MC: Adversarial Training
// for MCMC", and of their code: ring5.json has radii 1 to 5 and energy ((r - k) / 0.2)^2, without a
// factor of 1/2. The density is defined on x, without a Jacobian; half-way between rings, and at the
// origin, it has no gradient.
data {
  int<lower=1> K;
  vector<lower=0>[K] radii;
  real<lower=0> variance;
}
parameters {
  vector[2] x;
}
model {
  target += -min(square(hypot(x[1], x[2]) - radii)) / (2 * variance);
}
generated quantities {
  real radius = hypot(x[1], x[2]);
}
