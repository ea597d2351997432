// Predators and prey by the equations of Lotka and Volterra, a system of differential equations
// that is solved numerically: rates near one stand beside rates of a few hundredths.
//
// The model of Carpenter (2018), "Predator-prey population dynamics: the Lotka-Volterra model in
// Stan", for the lynxes and hares of Hudson Bay. SOURCE.md tells what the data are.
functions {
  vector change(real t, vector z, vector theta) {
    vector[2] slope;
    slope[1] = (theta[1] - theta[2] * z[2]) * z[1]; // prey
    slope[2] = (theta[4] * z[1] - theta[3]) * z[2]; // predators
    return slope;
  }
}
data {
  int<lower=1> T;
  array[T] real<lower=0> time; // years after the first count
  vector<lower=0>[2] first; // thousands
  array[T] vector<lower=0>[2] count; // thousands
}
parameters {
  vector<lower=0>[4] theta;
  vector<lower=0>[2] initial; // thousands
  vector<lower=0>[2] sigma;
}
model {
  array[T] vector[2] z = ode_rk45(change, initial, 0.0, time, theta);
  theta[1] ~ normal(1, 0.5);
  theta[2] ~ normal(0.05, 0.05);
  theta[3] ~ normal(1, 0.5);
  theta[4] ~ normal(0.05, 0.05);
  initial ~ lognormal(log(10), 1);
  sigma ~ lognormal(-1, 1);
  first ~ lognormal(log(initial), sigma);
  for (t in 1 : T) {
    count[t] ~ lognormal(log(z[t]), sigma);
  }
}
