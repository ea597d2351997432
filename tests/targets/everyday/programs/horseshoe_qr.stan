// As rstanarm writes it: coefficients of an orthogonal basis, with a regularized horseshoe.
data {
  int N;
  int K;
  matrix[N, K] X;
  vector[N] y;
  real<lower=0> global_scale;
  real<lower=0> slab_scale;
}
transformed data {
  matrix[N, K] Q = qr_thin_Q(X) * sqrt(N - 1.0);
  matrix[K, K] R = qr_thin_R(X) / sqrt(N - 1.0);
  matrix[K, K] R_inverse = inverse(R);
}
parameters {
  real alpha;
  vector[K] z;
  vector<lower=0>[K] local;
  real<lower=0> global;
  real<lower=0> caux;
  real<lower=0> sigma;
}
transformed parameters {
  vector[K] beta;
  {
    real c2 = square(slab_scale) * caux;
    real tau = global * global_scale * sigma;
    vector[K] l2 = square(local);
    beta = z .* sqrt(c2 * l2 ./ (c2 + square(tau) * l2)) * tau;
  }
}
model {
  z ~ std_normal();
  local ~ student_t(3, 0, 1);
  global ~ student_t(3, 0, 1);
  caux ~ inv_gamma(2, 2);
  alpha ~ normal(0, 5);
  sigma ~ exponential(1);
  y ~ normal_id_glm(Q, alpha, R * beta, sigma);
}
generated quantities {
  vector[K] theta = R * beta;
  vector[K] again = R_inverse * theta;
}
