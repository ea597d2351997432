"""A Langevin move, and the ratio by which a Metropolis step would accept it."""

from stanadapt.engine.compiled.jit import inlined
from stanadapt.engine.compiled.vectors import fill_normal
from stanadapt.engine.density import value_and_gradient


@inlined
def propose(density, x, y, noise, s, rng):
    """Set y to x + s^2 g(x) / 2 + s noise, with new noise.

    Parameters
    ----------
    x, y
        `GradientPoint`: where the move begins; its end and the gradient there are written to y.
    noise
        Shape (dim,), written.
    s
        The step size, sqrt(h) of the diffusion.

    Returns
    -------
    log_density, log_ratio
        At y; log of pi(y) q(x | y) / (pi(x) q(y | x)).

    """
    fill_normal(rng, noise)
    for i in range(density.dim):
        y.position[i] = x.position[i] + 0.5 * s * s * x.gradient[i] + s * noise[i]
    log_density = value_and_gradient(density, y.position, y.gradient)
    # the reverse move needs the noise -(noise + s (g(x) + g(y)) / 2)
    log_ratio = log_density - x.log_density
    for i in range(density.dim):
        reverse = noise[i] + 0.5 * s * (x.gradient[i] + y.gradient[i])
        log_ratio += 0.5 * (noise[i] * noise[i] - reverse * reverse)
    return log_density, log_ratio
