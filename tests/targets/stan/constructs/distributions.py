"""Distributions, one program for each family, with all arguments parameters."""

import numpy as np
from scipy import special, stats

from tests.targets.stan.constructs.construct import Construct, with_prior, x_in_model

REALS = np.array([-0.4, 1.2, 2.5])
POSITIVES = np.array([0.4, 1.2, 2.5])
SHARES = np.array([0.2, 0.45, 0.8])
ANGLES = np.array([-1.0, 0.3, 2.0])
COUNTS = np.array([0, 2, 5])
CATEGORIES = np.array([1, 3, 2])
INPUTS = np.column_stack([REALS, POSITIVES, SHARES])
DATA = {"y": REALS, "s": POSITIVES, "u": SHARES, "w": ANGLES, "k": COUNTS, "c": CATEGORIES}
DECLARED = ("vector[3] y; vector<lower=0>[3] s; vector<lower=0, upper=1>[3] u; vector[3] w; "
            "array[3] int k; array[3] int c;")  # fmt: skip


def family(name, statements, log_density, since="", **options):
    """Statements may use a = exp(v[1]) and b = exp(v[2]) as positive parameters."""
    code = x_in_model(f"real a = exp(v[1]); real b = exp(v[2]); {statements}", data=DECLARED)
    return Construct(
        name,
        code,
        with_prior(lambda x, v: np.sum(log_density(x, np.exp(v[0]), np.exp(v[1])))),
        DATA,
        since=since,
        **options,
    )


def skew_double_exponential(x, a, b, tau=0.4):
    weight = np.where(x > REALS, 1 - tau, tau)
    return np.log(2 * tau * (1 - tau) / a) - 2 / a * weight * np.abs(REALS - x)


def negative_binomial(mean, dispersion):
    return stats.nbinom.logpmf(COUNTS, dispersion, dispersion / (dispersion + mean))


def wiener(times, a, start, drift):
    """Log density of the times at which a diffusion meets its upper barrier, by images."""
    start, drift, scaled = 1 - start, -drift, times / a**2
    images = start + 2 * np.arange(-20, 21)[:, None]
    total = np.sum(images * np.exp(-(images**2) / (2 * scaled)), axis=0)
    log_total = np.log(total) - 0.5 * np.log(2 * np.pi * scaled**3)
    return log_total - a * drift * start - drift**2 * times / 2 - 2 * np.log(a)


def ordered(x, cut_points, cdf):
    above = 1 - cdf(np.r_[-np.inf, cut_points, np.inf] - x)
    return np.log(above[CATEGORIES - 1] - above[CATEGORIES])


CONSTRUCTS = [
    family("normal and student_t", "y ~ normal(x, a); y ~ student_t(3 + b, x, a);",
           lambda x, a, b: stats.norm.logpdf(REALS, x, a) + stats.t.logpdf(REALS, 3 + b, x, a)),
    family("cauchy, double_exponential, logistic, gumbel",
           "y ~ cauchy(x, a); y ~ double_exponential(x, a); y ~ logistic(x, a); y ~ gumbel(x, a);",
           lambda x, a, b: stats.cauchy.logpdf(REALS, x, a) + stats.laplace.logpdf(REALS, x, a)
           + stats.logistic.logpdf(REALS, x, a) + stats.gumbel_r.logpdf(REALS, x, a)),
    family("skew_normal and exp_mod_normal", "y ~ skew_normal(x, a, b); "
        "y ~ exp_mod_normal(x, a, b);",
           lambda x, a, b: stats.skewnorm.logpdf(REALS, b, x, a)
           + stats.exponnorm.logpdf(REALS, 1 / (a * b), x, a)),
    family("skew_double_exponential", "y ~ skew_double_exponential(x, a, 0.4);",
           skew_double_exponential, "2.28"),
    family("gamma, inv_gamma, exponential",
           "s ~ gamma(a, b); s ~ inv_gamma(a, b); s ~ exponential(a);",
           lambda x, a, b: stats.gamma.logpdf(POSITIVES, a, scale=1 / b)
           + stats.invgamma.logpdf(POSITIVES, a, scale=b)
           + stats.expon.logpdf(POSITIVES, scale=1 / a)),
    family("lognormal, weibull, frechet", "s ~ lognormal(x, a); s ~ weibull(a, b); "
        "s ~ frechet(a, b);",
           lambda x, a, b: stats.lognorm.logpdf(POSITIVES, a, scale=np.exp(x))
           + stats.weibull_min.logpdf(POSITIVES, a, scale=b)
           + stats.invweibull.logpdf(POSITIVES, a, scale=b)),
    family("chi_square, inv_chi_square, scaled_inv_chi_square",
           "s ~ chi_square(a); s ~ inv_chi_square(a); s ~ scaled_inv_chi_square(a, b);",
           lambda x, a, b: stats.chi2.logpdf(POSITIVES, a) + stats.invgamma.logpdf(
               POSITIVES, a / 2, scale=0.5) + stats.invgamma.logpdf(
               POSITIVES, a / 2, scale=a * b**2 / 2)),
    family("rayleigh and pareto_type_2", "s ~ rayleigh(a); s ~ pareto_type_2(0, a, b);",
           lambda x, a, b: stats.rayleigh.logpdf(POSITIVES, scale=a)
           + stats.lomax.logpdf(POSITIVES, b, scale=a)),
    family("pareto", "s ~ pareto(0.3, b);",
           lambda x, a, b: stats.pareto.logpdf(POSITIVES, b, scale=0.3)),
    family("loglogistic", "s ~ loglogistic(a, b);",
           lambda x, a, b: stats.fisk.logpdf(POSITIVES, b, scale=a), "2.29"),
    family("beta and beta_proportion", "u ~ beta(a, b); u ~ beta_proportion(inv_logit(x), a);",
           lambda x, a, b: stats.beta.logpdf(SHARES, a, b) + stats.beta.logpdf(
               SHARES, special.expit(x) * a, special.expit(-x) * a)),
    family("von_mises", "w ~ von_mises(x, a);",
           lambda x, a, b: stats.vonmises.logpdf(ANGLES, a, x)),
    family("uniform", "u ~ uniform(-a, 1 + b);",
           lambda x, a, b: stats.uniform.logpdf(SHARES, -a, 1 + b + a)),
    family("poisson and poisson_log", "k ~ poisson(a); k ~ poisson_log(x);",
           lambda x, a, b: stats.poisson.logpmf(COUNTS, a)
           + stats.poisson.logpmf(COUNTS, np.exp(x))),
    family("binomial and binomial_logit", "k ~ binomial(6, inv_logit(x)); "
        "k ~ binomial_logit(6, x);",
           lambda x, a, b: 2 * stats.binom.logpmf(COUNTS, 6, special.expit(x))),
    family("beta_binomial", "k ~ beta_binomial(6, a, b);",
           lambda x, a, b: stats.betabinom.logpmf(COUNTS, 6, a, b)),
    family("neg_binomial, neg_binomial_2, neg_binomial_2_log",
           "k ~ neg_binomial(a, b); k ~ neg_binomial_2(a, b); k ~ neg_binomial_2_log(x, b);",
           lambda x, a, b: stats.nbinom.logpmf(COUNTS, a, b / (1 + b)) + negative_binomial(a, b)
           + negative_binomial(np.exp(x), b)),
    Construct(
        "bernoulli_logit and bernoulli_logit_glm",
        x_in_model("array[3] int z = {0, 1, 1}; z ~ bernoulli_logit(x); "
                   "z ~ bernoulli_logit_glm(G, x, v);",
                   data="matrix[3, 3] G;"),
        with_prior(lambda x, v: np.sum(stats.bernoulli.logpmf([0, 1, 1], special.expit(x)))
                   + np.sum(stats.bernoulli.logpmf([0, 1, 1], special.expit(x + INPUTS @ v)))),
        {"G": INPUTS},
    ),
    family("categorical and categorical_logit",
           "c ~ categorical(softmax([x, v[1], v[2]]')); c ~ categorical_logit([x, v[1], v[2]]');",
           lambda x, a, b: 2 * special.log_softmax([x, np.log(a), np.log(b)])[CATEGORIES - 1]),
    family("multinomial", "k ~ multinomial(softmax([x, v[1], v[2]]'));",
           lambda x, a, b: stats.multinomial.logpmf(
               COUNTS, COUNTS.sum(), special.softmax([x, np.log(a), np.log(b)]))),
    family("ordered_logistic and ordered_probit",
           "{ vector[2] cuts = [v[1], v[1] + b]'; for (i in 1:3) { "
           "c[i] ~ ordered_logistic(x, cuts); c[i] ~ ordered_probit(x, cuts); } }",
           lambda x, a, b: ordered(x, [np.log(a), np.log(a) + b], special.expit)
           + ordered(x, [np.log(a), np.log(a) + b], special.ndtr), tolerance=1e-7),
    family("multi_normal and multi_normal_cholesky",
           "{ matrix[3, 3] S = add_diag(rep_matrix(a, 3, 3), b); "
           "y ~ multi_normal(rep_vector(x, 3), S);"
           " y ~ multi_normal_cholesky(rep_vector(x, 3), cholesky_decompose(S)); }",
           lambda x, a, b: 2 * stats.multivariate_normal.logpdf(
               REALS, np.full(3, x), a + b * np.eye(3))),
    family("multi_student_t", "y ~ multi_student_t(3, rep_vector(x, 3), add_diag(rep_matrix(a, "
                              "3, 3), b));",
           lambda x, a, b: stats.multivariate_t.logpdf(
               REALS, np.full(3, x), a + b * np.eye(3), df=3)),
    family("wishart and inv_wishart",
           "{ matrix[2, 2] S = [[a + 1, 0.3 * x], [0.3 * x, b + x^2]]; matrix[2, 2] I = "
           "identity_matrix(2); target += wishart_lpdf(S | 4, I) + inv_wishart_lpdf(S | 5, I); }",
           lambda x, a, b: stats.wishart.logpdf(
               np.array([[a + 1, 0.3 * x], [0.3 * x, b + x**2]]), 4, np.eye(2))
           + stats.invwishart.logpdf(
               np.array([[a + 1, 0.3 * x], [0.3 * x, b + x**2]]), 5, np.eye(2))),
    family("dirichlet", "[0.2, 0.3, 0.5]' ~ dirichlet([a, b, exp(x)]');",
           lambda x, a, b: stats.dirichlet.logpdf([0.2, 0.3, 0.5], [a, b, np.exp(x)])),
    family("normal_id_glm", "y ~ normal_id_glm(to_matrix(s), x, [v[1]]', b);",
           lambda x, a, b: stats.norm.logpdf(REALS, x + POSITIVES * np.log(a), b)),
    family("wiener", "s ~ wiener(1 + a, 0.1, inv_logit(x), v[2]);",
           lambda x, a, b: wiener(POSITIVES - 0.1, 1 + a, special.expit(x), np.log(b)),
           tolerance=1e-6),
    family("std_normal", "y ~ std_normal(); x * y ~ std_normal();",
           lambda x, a, b: -0.5 * (x * REALS) ** 2),
]  # fmt: skip
