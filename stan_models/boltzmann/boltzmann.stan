// The continuous relaxation of a Boltzmann machine: n spins of -1 or 1, summed out of a Gaussian
// around each of their 2^n states. Far apart, unequal modes in 26 dimensions, of which a few hold
// most of the mass; mean, standard deviations and evidence are known by enumeration.
//
// The spins have probabilities proportional to exp(s' W s / 2 + b' s), and Q Q' is W off the
// diagonal. With x given s normal around Q' s, covariance I, the density of x is what stands below.
// The integral of exp(target) is the sum over the states times (2 pi)^(D / 2) / 2^n, with Q Q' for
// W. From Graham and Storkey (2017), "Continuously tempered Hamiltonian Monte Carlo"; Nemeth et al.
// (2019), "Pseudo-extended Markov chain Monte Carlo", take systems of 28 spins. system_10.json
// and system_1.json are the two of which they show results, generated as theirs were.
data {
  int<lower=1> D;
  int<lower=1> n;
  matrix[n, D] Q;
  vector[n] b;
}
parameters {
  vector[D] x;
}
model {
  // log cosh(y) = log(1 + exp(2 y)) - y - log 2, and log1p_exp overflows for no y
  vector[n] y = Q * x + b;
  target += sum(log1p_exp(2 * y)) - sum(y) - n * log2() - 0.5 * dot_self(x);
}
