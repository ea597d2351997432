// Robust regression with Student's t distribution, whose degrees of freedom are estimated: weight
// in kilograms by height in centimeters and sex, where one person's two numbers were swapped.
//
// Juarez and Steel (2010), "Model-based clustering of non-Gaussian panel data based on skew-t
// distributions", propose this prior of the degrees of freedom.
data {
  int<lower=1> N;
  vector<lower=0>[N] height; // cm
  vector<lower=0, upper=1>[N] male;
  vector<lower=0>[N] weight; // kg
}
parameters {
  real alpha; // kg
  real beta; // kg per cm
  real gamma; // kg
  real<lower=0> sigma; // kg
  real<lower=1> nu;
}
model {
  alpha ~ normal(0, 200);
  beta ~ normal(0, 2);
  gamma ~ normal(0, 20);
  sigma ~ normal(0, 20);
  nu ~ gamma(2, 0.1);
  weight ~ student_t(nu, alpha + beta * height + gamma * male, sigma);
}
