// Choices among categories; the coefficients of the first are zero.
data {
  int<lower=2> K;
  int N;
  int D;
  array[N] int<lower=1, upper=K> y;
  matrix[N, D] x;
}
transformed data {
  vector[D] zeros = rep_vector(0, D);
}
parameters {
  matrix[D, K - 1] beta_raw;
}
transformed parameters {
  matrix[D, K] beta = append_col(zeros, beta_raw);
}
model {
  matrix[N, K] x_beta = x * beta;
  to_vector(beta_raw) ~ normal(0, 2);
  for (n in 1:N) y[n] ~ categorical_logit(x_beta[n]');
}
