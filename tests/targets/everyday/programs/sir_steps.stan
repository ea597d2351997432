// An epidemic by a difference equation, with a reporting rate and a change of transmission.
data {
  int days;
  int change;
  real N;
  real I0;
  array[days] int cases;
}
parameters {
  real<lower=0> before;
  real<lower=0> after;
  real<lower=0, upper=1> recovery;
  real<lower=0, upper=1> reported;
}
transformed parameters {
  vector[days] expected;
  {
    real S = N - I0;
    real I = I0;
    for (d in 1:days) {
      real rate = d < change ? before : after;
      real infections = S * (1 - exp(-rate * I / N));
      S -= infections;
      I += infections - recovery * I;
      expected[d] = reported * infections;
    }
  }
}
model {
  before ~ lognormal(-0.7, 0.5);
  after ~ lognormal(-1.5, 0.5);
  recovery ~ beta(4, 16);
  reported ~ beta(4, 4);
  cases ~ poisson(expected);
}
