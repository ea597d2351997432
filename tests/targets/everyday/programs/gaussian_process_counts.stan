// A latent Gaussian process for counts.
data {
  int<lower=1> N;
  array[N] real x;
  array[N] int<lower=0> k;
}
parameters {
  real<lower=0> rho;
  real<lower=0> alpha;
  real a;
  vector[N] eta;
}
transformed parameters {
  vector[N] f;
  {
    matrix[N, N] L = cholesky_decompose(add_diag(gp_exp_quad_cov(x, alpha, rho), 1e-6));
    f = L * eta;
  }
}
model {
  rho ~ inv_gamma(5, 5);
  alpha ~ normal(0, 1);
  a ~ normal(1, 1);
  eta ~ std_normal();
  k ~ poisson_log(a + f);
}
