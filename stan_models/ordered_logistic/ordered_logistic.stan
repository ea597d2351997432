// Ordered logistic regression: which of three ranks an employee of a bank has, by years of school
// and minority. The cut points lie where the years of school put them, far from zero.
//
// The prior of the cut points is that of any intercept on raw inputs: wide.
data {
  int<lower=1> N;
  int<lower=1> K;
  int<lower=2> ranks;
  matrix[N, K] X;
  array[N] int<lower=1, upper=ranks> y;
  vector<lower=0>[K] sd_slopes;
  real<lower=0> sd_cut_points;
}
parameters {
  vector[K] beta;
  ordered[ranks - 1] cut_points;
}
model {
  beta ~ normal(0, sd_slopes);
  cut_points ~ normal(0, sd_cut_points);
  y ~ ordered_logistic(X * beta, cut_points);
}
