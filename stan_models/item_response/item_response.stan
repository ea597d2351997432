// Item response theory with two parameters per item: a hundred persons answer 24 questions about
// verbal aggression by yes or no. Abilities and items are estimated together.
//
// De Boeck and Wilson (2004), "Explanatory item response models".
data {
  int<lower=1> N;
  int<lower=1> I;
  int<lower=1> J;
  array[N] int<lower=1, upper=I> item;
  array[N] int<lower=1, upper=J> person;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  vector[J] theta; // the persons
  vector<lower=0>[I] discrimination;
  vector[I] difficulty;
}
model {
  theta ~ std_normal();
  discrimination ~ lognormal(0, 0.5);
  difficulty ~ normal(0, 2);
  y ~ bernoulli_logit(discrimination[item] .* (theta[person] - difficulty[item]));
}
