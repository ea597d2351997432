// Two binary outcomes with correlated errors, by truncated latent variables.
data {
  int N;
  array[N, 2] int<lower=0, upper=1> y;
  vector[N] x;
}
parameters {
  vector[2] a;
  vector[2] b;
  cholesky_factor_corr[2] L;
  array[N] vector<lower=0, upper=1>[2] u;
}
model {
  L ~ lkj_corr_cholesky(2);
  a ~ normal(0, 1);
  b ~ normal(0, 1);
  for (n in 1:N) {
    vector[2] z;
    real previous = 0;
    for (d in 1:2) {
      real bound = Phi(-(a[d] + b[d] * x[n] + previous) / L[d, d]);
      if (y[n, d] == 1) {
        z[d] = inv_Phi(bound + (1 - bound) * u[n, d]);
        target += log1m(bound);
      } else {
        z[d] = inv_Phi(bound * u[n, d]);
        target += log(bound);
      }
      if (d < 2) previous = L[2, 1] * z[1];
    }
  }
}
