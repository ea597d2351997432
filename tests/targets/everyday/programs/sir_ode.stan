// An epidemic: differential equations, and daily counts of new cases.
functions {
  vector sir(real t, vector y, real beta, real gamma, real N) {
    real infection = beta * y[1] * y[2] / N;
    return [-infection, infection - gamma * y[2]]';
  }
}
data {
  int days;
  array[days] real ts;
  real N;
  real I0;
  array[days] int cases;
}
parameters {
  real<lower=0> beta;
  real<lower=0> gamma;
  real<lower=0> phi_inv;
}
transformed parameters {
  real phi = 1 / phi_inv;
  vector[days] incidence;
  {
    array[days] vector[2] y = ode_rk45_tol(sir, [N - I0, I0]', 0, ts, 1e-9, 1e-9, 100000,
                                            beta, gamma, N);
    incidence[1] = N - I0 - y[1, 1] + 1e-6;
    for (d in 2:days) incidence[d] = y[d - 1, 1] - y[d, 1] + 1e-6;
  }
}
model {
  beta ~ normal(1, 1);
  gamma ~ normal(0.4, 0.5);
  phi_inv ~ exponential(5);
  cases ~ neg_binomial_2(incidence, phi);
}
generated quantities {
  real R0 = beta / gamma;
}
