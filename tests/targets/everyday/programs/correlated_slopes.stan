// Intercepts and slopes of groups with a correlation, by Cholesky factors.
data {
  int N;
  int J;
  array[N] int<lower=1, upper=J> id;
  vector[N] x;
  vector[N] y;
}
parameters {
  vector[2] beta;
  vector<lower=0>[2] tau;
  cholesky_factor_corr[2] L_Omega;
  matrix[2, J] z;
  real<lower=0> sigma;
}
transformed parameters {
  matrix[J, 2] u = (diag_pre_multiply(tau, L_Omega) * z)';
}
model {
  beta ~ normal(0, 2);
  tau ~ normal(0, 1);
  L_Omega ~ lkj_corr_cholesky(2);
  to_vector(z) ~ std_normal();
  sigma ~ normal(0, 1);
  y ~ normal(beta[1] + u[id, 1] + (beta[2] + u[id, 2]) .* x, sigma);
}
generated quantities {
  real rho = multiply_lower_tri_self_transpose(L_Omega)[1, 2];
}
