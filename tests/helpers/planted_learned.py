"""Faults of learned proposals and of inexact samplers: see `test_planted_bugs`."""

LEARNED = {
    "noise_of_the_wrong_variance": (
        "samplers/langevin/sgld.py",
        "noise = np.sqrt(e)",
        "noise = e",
        "samplers/langevin/test_sgld.py",
        "closed_form",
    ),
    "gradient_of_a_batch_as_if_of_all_rows": (
        "samplers/langevin/minibatch_density.py",
        "    total *= count\n",
        "    count = 1\n",
        "samplers/langevin/test_minibatches.py",
        "mean",
    ),
    "whole_step_along_the_gradient": (
        "engine/points.py",
        "x.position[i] + 0.5 * s * s * x.gradient[i]",
        "x.position[i] + s * s * x.gradient[i]",
        "samplers/langevin/test_ula.py",
        "closed_form",
    ),
    "biased_draws_passed_as_exact": (
        "samplers/langevin/ula.py",
        "exact=False",
        "exact=True",
        "samplers/test_every_sampler.py",
        "invariant and ula-variance_bias",
    ),
    "couplings_inverted_in_their_own_order": (
        "samplers/nice/additive_couplings.py",
        "k if forward else count - 1 - k",
        "k",
        "samplers/nice/test_network.py",
        "inverse",
    ),
    "euler_for_leapfrog": (
        "engine/leapfrog.py",
        "position[i] += step_size * scale[i] * momentum[i]",
        "position[i] += step_size * scale[i] * (momentum[i] - step_size * scale[i] * gradient[i])",
        "samplers/variational/test_hvi.py",
        "bound_rises",
    ),
    "raw_draws_passed_as_exact": (
        "samplers/variational/hvi.py",
        "exact=lambda settings: settings.exact",
        "exact=lambda settings: True",
        "samplers/variational/test_hvi.py",
        "raw",
    ),
    "reverse_fitted_without_its_mean": (
        "samplers/variational/hamiltonian_path.py",
        "total = ends[t, 1, i] - model.offsets[t, i]",
        "total = ends[t, 1, i]",
        "samplers/variational/test_hvi.py",
        "posterior_lies",
    ),
}
