// Times with censoring on the right: Weibull with an indicator.
data {
  int N;
  vector<lower=0>[N] time;
  array[N] int<lower=0, upper=1> event;
  int K;
  matrix[N, K] X;
}
parameters {
  real<lower=0> shape;
  real intercept;
  vector[K] beta;
}
model {
  vector[N] scale = exp(intercept + X * beta);
  shape ~ lognormal(0, 0.5);
  intercept ~ normal(0, 2);
  beta ~ normal(0, 1);
  for (n in 1:N) {
    if (event[n] == 1) target += weibull_lpdf(time[n] | shape, scale[n]);
    else target += weibull_lccdf(time[n] | shape, scale[n]);
  }
}
