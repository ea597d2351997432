// Two lines for one cloud of points.
data {
  int N;
  vector[N] x;
  vector[N] y;
}
parameters {
  simplex[2] w;
  ordered[2] slope;
  vector[2] intercept;
  vector<lower=0>[2] sigma;
}
model {
  w ~ dirichlet([3, 3]');
  slope ~ normal(0, 2);
  intercept ~ normal(0, 2);
  sigma ~ exponential(1);
  for (n in 1:N) {
    target += log_mix(w[1], normal_lpdf(y[n] | intercept[1] + slope[1] * x[n], sigma[1]),
                      normal_lpdf(y[n] | intercept[2] + slope[2] * x[n], sigma[2]));
  }
}
