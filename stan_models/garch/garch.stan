// GARCH(1,1): the daily log returns of a share index, whose variance follows its own past. One
// parameter is about 1e-5; two lie between zero and one, and so does their sum.
//
// The first variance is that of the whole series. Bollerslev (1986), "Generalized autoregressive
// conditional heteroskedasticity".
data {
  int<lower=3> T;
  vector<lower=0>[T] price;
}
transformed data {
  vector[T - 1] returns = log(price[2 : T] ./ price[1 : T - 1]);
  real first_variance = variance(returns);
}
parameters {
  real mu;
  real<lower=0> omega;
  real<lower=0, upper=1> alpha;
  real<lower=0, upper=1 - alpha> beta;
}
model {
  vector[T - 1] h;
  h[1] = first_variance;
  for (t in 2 : T - 1) {
    h[t] = omega + alpha * square(returns[t - 1] - mu) + beta * h[t - 1];
  }
  mu ~ normal(0, 0.01);
  omega ~ lognormal(-11, 2);
  alpha ~ beta(1, 3);
  returns ~ normal(mu, sqrt(h));
}
