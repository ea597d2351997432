// As Prophet writes it: a linear trend with change points, and Fourier terms.
functions {
  matrix changes(vector t, vector t_change, int T, int S) {
    matrix[T, S] A = rep_matrix(0, T, S);
    row_vector[S] a_row = rep_row_vector(0, S);
    int cp_idx = 1;
    for (i in 1:T) {
      while ((cp_idx <= S) && (t[i] >= t_change[cp_idx])) {
        a_row[cp_idx] = 1;
        cp_idx = cp_idx + 1;
      }
      A[i] = a_row;
    }
    return A;
  }
  vector linear_trend(real k, real m, vector delta, vector t, matrix A, vector t_change) {
    return (k + A * delta) .* t + (m + A * (-t_change .* delta));
  }
}
data {
  int T;
  int<lower=1> K;
  vector[T] t;
  vector[T] y;
  int S;
  vector[S] t_change;
  matrix[T, K] X;
  vector[K] sigmas;
  real<lower=0> tau;
}
transformed data {
  matrix[T, S] A = changes(t, t_change, T, S);
}
parameters {
  real k;
  real m;
  vector[S] delta;
  real<lower=0> sigma_obs;
  vector[K] beta;
}
model {
  k ~ normal(0, 5);
  m ~ normal(0, 5);
  delta ~ double_exponential(0, tau);
  sigma_obs ~ normal(0, 0.5);
  beta ~ normal(0, sigmas);
  y ~ normal_id_glm(X, linear_trend(k, m, delta, t, A, t_change), beta, sigma_obs);
}
