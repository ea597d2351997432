// Ratings in five categories, with a prior on the cut points by an induced simplex.
functions {
  real induced_dirichlet_lpdf(vector c, vector alpha) {
    int K = num_elements(c) + 1;
    vector[K - 1] sigma = inv_logit(c);
    vector[K] p;
    matrix[K, K] J = rep_matrix(0, K, K);
    p[1] = 1 - inv_logit(-c[1]);
    for (k in 2:(K - 1)) p[k] = sigma[k] - sigma[k - 1];
    p[K] = 1 - sigma[K - 1];
    for (k in 1:K) J[k, 1] = 1;
    for (k in 2:K) {
      real rho = sigma[k - 1] * (1 - sigma[k - 1]);
      J[k, k] = -rho;
      J[k - 1, k] = rho;
    }
    return dirichlet_lpdf(p | alpha) + log_determinant(J);
  }
}
data {
  int<lower=2> K;
  int N;
  int D;
  array[N] int<lower=1, upper=K> y;
  matrix[N, D] x;
}
parameters {
  vector[D] beta;
  ordered[K - 1] c;
}
model {
  beta ~ normal(0, 2);
  c ~ induced_dirichlet(rep_vector(1, K));
  y ~ ordered_logistic_glm(x, beta, c);
}
