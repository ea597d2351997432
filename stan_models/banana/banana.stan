// A banana: a Gaussian, wide in its first coordinate, whose second one is bent into a parabola. For
// seeing whether a sampler follows a curved valley; its mean is zero, and every quantile is known.
//
// B(twist, variance) of Haario, Saksman and Tamminen (1999), "Adaptive proposal distribution for
// random walk Metropolis algorithm", which bend a Gaussian of that variance in x[1]. moderate.json
// is B(0.03, 100) and strong.json B(0.1, 100), both 8-dimensional, as in Sejdinovic et al. (2014),
// "Kernel adaptive Metropolis-Hastings".
data {
  int<lower=2> N;
  real twist;
  real<lower=0> variance;
}
parameters {
  vector[N] x;
}
model {
  x[1] ~ normal(0, sqrt(variance));
  x[2] ~ normal(twist * (square(x[1]) - variance), 1);
  tail(x, N - 2) ~ std_normal();
}
generated quantities {
  // of x with the bend and the scale undone: chi-squared with N degrees of freedom
  real radius_squared = square(x[1]) / variance
                        + square(x[2] - twist * (square(x[1]) - variance))
                        + dot_self(tail(x, N - 2));
}
