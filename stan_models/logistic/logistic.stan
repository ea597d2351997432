// Bayesian logistic regression with independent standard normal priors: w[1] is the intercept,
// w[d + 1] belongs to input d. For comparing samplers on real posteriors of 3 to 86 parameters.
//
// As in Titsias and Dellaportas (2019): the inputs come raw and are standardized here, column by
// column, with the sample standard deviation. There are no generated quantities, so that timings
// are those of the density alone.
data {
  int<lower=2> N;
  int<lower=1> D;
  matrix[N, D] X;
  array[N] int<lower=0, upper=1> y;
}
transformed data {
  matrix[N, D + 1] Z;
  Z[ : , 1] = rep_vector(1, N);
  for (d in 1 : D) {
    if (sd(X[ : , d]) == 0) {
      reject("Column ", d, " of X is constant and cannot be standardized.");
    }
    Z[ : , d + 1] = (X[ : , d] - mean(X[ : , d])) / sd(X[ : , d]);
  }
}
parameters {
  vector[D + 1] w;
}
model {
  w ~ std_normal();
  y ~ bernoulli_logit_glm(Z, 0, w);
}
