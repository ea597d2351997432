// Shares of categories by breaking a stick, with counts.
data {
  int K;
  int G;
  array[G, K] int<lower=0> n;
}
parameters {
  vector<lower=0, upper=1>[K - 1] v;
  real<lower=0> alpha;
}
transformed parameters {
  simplex[K] w;
  {
    real left = 1;
    for (k in 1:(K - 1)) {
      w[k] = left * v[k];
      left -= w[k];
    }
    w[K] = left;
  }
}
model {
  alpha ~ gamma(4, 2);
  v ~ beta(1, alpha);
  for (g in 1:G) n[g] ~ multinomial(w);
}
