// Counts with too many zeros.
data {
  int N;
  array[N] int<lower=0> y;
  vector[N] x;
}
parameters {
  real<lower=0, upper=1> theta;
  real alpha;
  real beta;
}
model {
  alpha ~ normal(0, 2);
  beta ~ normal(0, 1);
  for (n in 1:N) {
    if (y[n] == 0) {
      target += log_sum_exp(log(theta), log1m(theta) + poisson_log_lpmf(0 | alpha + beta * x[n]));
    } else {
      target += log1m(theta) + poisson_log_lpmf(y[n] | alpha + beta * x[n]);
    }
  }
}
