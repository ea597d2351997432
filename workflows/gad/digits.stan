// Bayesian logistic regression on images: w[d] belongs to pixel d, the last w is the intercept;
// independent standard normal priors.
//
// As in Titsias and Dellaportas (2019): pixels are numbers from 0 to 1, not standardised, so that a
// pixel that is never inked leaves its weight to the prior.
data {
  int<lower=1> N;
  int<lower=1> D;
  matrix<lower=0, upper=1>[N, D] X;
  array[N] int<lower=0, upper=1> y;
}
transformed data {
  matrix[N, D + 1] Z = append_col(X, rep_vector(1, N));
}
parameters {
  vector[D + 1] w;
}
model {
  w ~ std_normal();
  y ~ bernoulli_logit_glm(Z, 0, w);
}
