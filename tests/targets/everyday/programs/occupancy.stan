// Sites that may be occupied without a detection.
data {
  int R;
  int T;
  array[R, T] int<lower=0, upper=1> y;
  vector[R] forest;
}
transformed data {
  array[R] int seen;
  for (i in 1:R) seen[i] = sum(y[i]);
}
parameters {
  real alpha;
  real beta;
  real logit_p;
}
model {
  vector[R] logit_psi = alpha + beta * forest;
  alpha ~ normal(0, 1.5);
  beta ~ normal(0, 1.5);
  logit_p ~ normal(0, 1.5);
  for (i in 1:R) {
    if (seen[i] > 0) {
      target += log_inv_logit(logit_psi[i]) + bernoulli_logit_lpmf(y[i] | logit_p);
    } else {
      target += log_sum_exp(log_inv_logit(logit_psi[i]) + bernoulli_logit_lpmf(y[i] | logit_p),
                            log1m_inv_logit(logit_psi[i]));
    }
  }
}
