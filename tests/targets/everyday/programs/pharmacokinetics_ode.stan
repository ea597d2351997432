// Elimination of Michaelis and Menten, by a stiff solver.
functions {
  vector elimination(real t, vector y, real ka, real vmax, real km, real v) {
    real c = y[2] / v;
    return [-ka * y[1], ka * y[1] - vmax * c / (km + c)]';
  }
}
data {
  int T;
  array[T] real time;
  real dose;
  vector<lower=0>[T] concentration;
}
parameters {
  real<lower=0> ka;
  real<lower=0> vmax;
  real<lower=0> v;
  real<lower=0> sigma;
}
model {
  vector[T] mu;
  array[T] vector[2] y = ode_bdf_tol(elimination, [dose, 0]', 0, time, 1e-8, 1e-8, 10000,
                                     ka, vmax, 2.0, v);
  for (k in 1:T) mu[k] = y[k, 2] / v;
  ka ~ lognormal(0, 0.7);
  vmax ~ lognormal(1, 0.7);
  v ~ lognormal(2, 0.7);
  sigma ~ normal(0, 0.3);
  concentration ~ lognormal(log(mu), sigma);
}
