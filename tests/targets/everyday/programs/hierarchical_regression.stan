// As brms writes it: centered predictors, standardized group effects, a likelihood in slices.
functions {
  real slice_lpmf(array[] int seq, int start, int end, data vector Y, data matrix Xc, vector b,
                  real Intercept, real sigma, data array[] int J_1, data vector Z_1_1,
                  vector r_1_1) {
    int N = end - start + 1;
    vector[N] mu = Intercept + Xc[start:end] * b;
    for (n in 1:N) {
      int nn = n + start - 1;
      mu[n] += r_1_1[J_1[nn]] * Z_1_1[nn];
    }
    return normal_lpdf(Y[start:end] | mu, sigma);
  }
}
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> K;
  matrix[N, K] X;
  int<lower=1> N_1;
  array[N] int<lower=1> J_1;
  vector[N] Z_1_1;
  int grainsize;
  int prior_only;
}
transformed data {
  int Kc = K - 1;
  matrix[N, Kc] Xc;
  vector[Kc] means_X;
  array[N] int seq;
  for (i in 2:K) {
    means_X[i - 1] = mean(X[, i]);
    Xc[, i - 1] = X[, i] - means_X[i - 1];
  }
  for (n in 1:N) seq[n] = n;
}
parameters {
  vector[Kc] b;
  real Intercept;
  real<lower=0> sigma;
  vector<lower=0>[1] sd_1;
  array[1] vector[N_1] z_1;
}
transformed parameters {
  vector[N_1] r_1_1 = sd_1[1] * z_1[1];
  real lprior = 0;
  lprior += student_t_lpdf(Intercept | 3, 2, 2.5);
  lprior += student_t_lpdf(sigma | 3, 0, 2.5) - student_t_lccdf(0 | 3, 0, 2.5);
  lprior += student_t_lpdf(sd_1 | 3, 0, 2.5) - 1 * student_t_lccdf(0 | 3, 0, 2.5);
}
model {
  if (!prior_only) {
    target += reduce_sum(slice_lpmf, seq, grainsize, Y, Xc, b, Intercept, sigma, J_1, Z_1_1, r_1_1);
  }
  target += lprior;
  target += std_normal_lpdf(z_1[1]);
}
generated quantities {
  real b_Intercept = Intercept - dot_product(means_X, b);
}
