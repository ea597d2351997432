// a regression with varying intercepts, in the form of the programs that brms generates
data {
  int<lower=1> N;  // observations
  vector[N] Y;
  int<lower=1> K;  // columns of the design matrix, with the intercept
  matrix[N, K] X;
  int<lower=1> Kc;  // columns without the intercept
  int<lower=1> N_1;  // groups
  int<lower=1> M_1;  // coefficients of each group
  array[N] int<lower=1> J_1;
  vector[N] Z_1_1;
  int prior_only;  // whether to leave out the likelihood
}
transformed data {
  matrix[N, Kc] Xc;  // centered, without the intercept
  vector[Kc] means_X;
  for (i in 2 : K) {
    means_X[i - 1] = mean(X[ : , i]);
    Xc[ : , i - 1] = X[ : , i] - means_X[i - 1];
  }
}
parameters {
  vector[Kc] b;
  real Intercept;  // at the means of the predictors
  real<lower=0> sigma;
  vector<lower=0>[M_1] sd_1;
  array[M_1] vector[N_1] z_1;
}
transformed parameters {
  vector[N_1] r_1_1;
  real lprior = 0;  // the prior, of which brms keeps the value
  r_1_1 = sd_1[1] * z_1[1];
  lprior += normal_lpdf(b | 0, 5);
  lprior += student_t_lpdf(Intercept | 3, 10, 5);
  lprior += student_t_lpdf(sigma | 3, 0, 2.5) - 1 * student_t_lccdf(0 | 3, 0, 2.5);
  lprior += student_t_lpdf(sd_1 | 3, 0, 2.5) - 1 * student_t_lccdf(0 | 3, 0, 2.5);
}
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    mu += Intercept;
    for (n in 1 : N) {
      mu[n] += r_1_1[J_1[n]] * Z_1_1[n];
    }
    target += normal_id_glm_lpdf(Y | Xc, mu, b, sigma);
  }
  target += lprior;
  target += std_normal_lpdf(z_1[1]);
}
generated quantities {
  real b_Intercept = Intercept - dot_product(means_X, b);
}
