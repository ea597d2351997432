// A finite mixture of round Gaussians, each with its own weight and width. For seeing whether a
// sampler finds every mode and gives it its share of the draws; all moments are known exactly.
//
// The density is normalized: its integral over x is 1, which makes the log evidence 0 exactly.
// Weights need not sum to 1. one_dim.json is the illustration of Nemeth et al. (2019),
// "Pseudo-extended Markov chain Monte Carlo", variances 0.1 and 0.02. The twenty centers are those
// of Kou, Zhou and Wong (2006), "Equi-energy sampler": equal in weight and width (twenty.json), or
// with weights 1 / d and a width that grows with the distance d from (5, 5). Published numbers for
// the second take d / 20 for the standard deviation (twenty_sd.json) or for the variance
// (twenty_variance.json). eight.json and eight_widths.json are ours: eight corners of a cube in 20
// dimensions with weights from 1 to 8, of one width and of very different ones. The last is hard
// for tempering: a narrow mode has next to no mass at the temperatures that let a chain travel.
// mog2.json and mog6.json, two and six centers at distance 5 from the origin, are those of Song,
// Zhao and Ermon (2017), "A-NICE-MC: Adversarial Training for MCMC".
data {
  int<lower=1> D;
  int<lower=1> K;
  vector<lower=0>[K] weights;
  array[K] vector[D] means;
  vector<lower=0>[K] sds;
}
transformed data {
  vector[K] log_weights = log(weights) - log(sum(weights));
}
parameters {
  vector[D] x;
}
model {
  vector[K] parts = log_weights;
  for (k in 1 : K) {
    parts[k] += normal_lpdf(x | means[k], sds[k]);
  }
  target += log_sum_exp(parts);
}
