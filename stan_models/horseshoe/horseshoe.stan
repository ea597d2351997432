// Logistic regression with the regularised horseshoe prior, for more inputs than rows: most
// coefficients are near zero, a few are not, and the posterior does not settle which. Its funnels
// and many modes are a hard test in hundreds of dimensions, judged by prediction of unseen rows.
//
// Piironen and Vehtari (2017), "Sparsity information and regularization in the horseshoe and other
// shrinkage priors". Inputs come raw; those of both parts are standardized here with the means and
// standard deviations of the training rows. Nemeth et al. (2019), "Pseudo-extended Markov chain
// Monte Carlo", use this model with slab_df = 3 on other data.
data {
  int<lower=2> N;
  int<lower=1> P;
  matrix[N, P] X;
  array[N] int<lower=0, upper=1> y;
  int<lower=0> N_test;
  matrix[N_test, P] X_test;
  array[N_test] int<lower=0, upper=1> y_test;
  real<lower=0> scale_intercept;
  real<lower=0> scale_global;
  real<lower=0> nu_local;
  real<lower=0> nu_global;
  real<lower=0> slab_scale;
  real<lower=0> slab_df;
}
transformed data {
  matrix[N, P] Z;
  matrix[N_test, P] Z_test;
  for (p in 1 : P) {
    real center = mean(X[ : , p]);
    real spread = sd(X[ : , p]);
    if (spread == 0) {
      reject("Column ", p, " of X is constant and cannot be standardized.");
    }
    Z[ : , p] = (X[ : , p] - center) / spread;
    Z_test[ : , p] = (X_test[ : , p] - center) / spread;
  }
}
parameters {
  real beta0;
  vector[P] z;
  vector<lower=0>[P] lambda;
  real<lower=0> tau;
  real<lower=0> slab_variance; // of the slab, in units of slab_scale squared
}
transformed parameters {
  vector[P] beta;
  {
    // c^2 lambda^2 / (c^2 + tau^2 lambda^2) times tau^2, divided through so that nothing overflows
    vector[P] loose = tau * lambda;
    real slab = slab_scale * sqrt(slab_variance);
    beta = z .* loose ./ sqrt(1 + square(loose / slab));
  }
}
model {
  beta0 ~ normal(0, scale_intercept);
  z ~ std_normal();
  lambda ~ student_t(nu_local, 0, 1);
  tau ~ student_t(nu_global, 0, scale_global);
  slab_variance ~ inv_gamma(0.5 * slab_df, 0.5 * slab_df);
  y ~ bernoulli_logit_glm(Z, beta0, beta);
}
generated quantities {
  // log probabilities of the labels of the test rows, and of all of them together
  vector[N_test] log_predictive_of_row;
  real log_predictive;
  {
    vector[N_test] logits = beta0 + Z_test * beta;
    for (n in 1 : N_test) {
      log_predictive_of_row[n] = bernoulli_logit_lpmf(y_test[n] | logits[n]);
    }
    log_predictive = sum(log_predictive_of_row);
  }
}
