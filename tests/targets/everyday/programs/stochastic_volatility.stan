// Returns with a standard deviation that wanders, in standardized steps.
data {
  int<lower=1> T;
  vector[T] y;
}
parameters {
  real mu;
  real<lower=-1, upper=1> phi;
  real<lower=0> sigma;
  vector[T] h_std;
}
transformed parameters {
  vector[T] h = h_std * sigma;
  h[1] /= sqrt(1 - phi * phi);
  h += mu;
  for (t in 2:T) h[t] += phi * (h[t - 1] - mu);
}
model {
  phi ~ normal(0.9, 0.1);
  sigma ~ normal(0, 0.5);
  mu ~ normal(0, 2);
  h_std ~ std_normal();
  y ~ normal(0, exp(h / 2));
}
