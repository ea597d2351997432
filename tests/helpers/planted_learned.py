"""Faults of learned proposals, and of samplers that are not exact: see `test_planted_bugs`."""

LEARNED = {
    "noise_of_the_wrong_variance": (
        "samplers/sgld.py",
        "noise = np.sqrt(e)",
        "noise = e",
        "samplers/test_sgld.py",
        "closed_form",
    ),
    "gradient_of_a_batch_as_if_of_all_rows": (
        "kernels/minibatch_density.py",
        "    total *= count\n",
        "    count = 1\n",
        "targets/test_minibatches.py",
        "mean",
    ),
    "whole_step_along_the_gradient": (
        "kernels/langevin.py",
        "x.position[i] + 0.5 * s * s * x.gradient[i]",
        "x.position[i] + s * s * x.gradient[i]",
        "samplers/test_ula.py",
        "closed_form",
    ),
    "biased_draws_passed_as_exact": (
        "samplers/ula.py",
        "exact=False",
        "exact=True",
        "samplers/test_every_sampler.py",
        "invariant and ula-variance_bias",
    ),
    "couplings_inverted_in_their_own_order": (
        "kernels/learned/additive_couplings.py",
        "k if forward else count - 1 - k",
        "k",
        "kernels/learned/test_network.py",
        "inverse",
    ),
    "euler_for_leapfrog": (
        "kernels/hamiltonian/leapfrog.py",
        "position[i] += step_size * scale[i] * momentum[i]",
        "position[i] += step_size * scale[i] * (momentum[i] - step_size * scale[i] * gradient[i])",
        "samplers/test_hvi.py",
        "bound_rises",
    ),
    "raw_draws_passed_as_exact": (
        "samplers/hvi.py",
        "exact=lambda settings: settings.exact",
        "exact=lambda settings: True",
        "samplers/test_hvi.py",
        "raw",
    ),
    "reverse_fitted_without_its_mean": (
        "kernels/variational/hamiltonian_path.py",
        "total = ends[t, 1, i] - model.offsets[t, i]",
        "total = ends[t, 1, i]",
        "samplers/test_hvi.py",
        "posterior_lies",
    ),
}
