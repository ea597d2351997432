"""The adversarial training of a NICE network, on draws alone: JAX and optax.

A generator, the network f, runs short chains T without rejection: b steps from noise, m from a
draw, and m from the end of the first chain. A critic distinguishes pairs (end, start) of the latter
two from pairs of independent draws; the generator learns to make them look alike, so that ends
neither leave the distribution nor depend on their starts.

References
----------
Song, Zhao and Ermon (2017), A-NICE-MC, NIPS, and the authors' code: lengths b and m uniform, drawn
again for every batch; a critic with gradient penalty 10 (Gulrajani and others 2017, NIPS), leaky
ReLUs of slope 0.2, five of its steps per step of the generator; Adam with decay rates 0.5 and 0.9;
a generator loss that also keeps v standard normal. Deviations: rows are drawn with replacement; the
gradient penalty uses one mixing number per pair; the trained network has the running average of the
generator's weights, since the last ones oscillate with the critic. The energy of v in the loss is a
sum over its coordinates, as in the acceptance ratio, theirs a mean: the loss of a critic is in
units of z, which have a standard deviation of 3 here, and of 0.1 to 0.2 in their regressions, so
that a mean is 15 to 30 times lighter. v then leaves the normal distribution, and nearly all moves
are rejected.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stanadapt.samplers.nice.network import Coupling

CRITIC_STEPS, SLOPE, PENALTY = 5, 0.2, 10.0
# of the energy of v in the loss of the generator: with draws of standard deviation 3 it gives the
# weight that the paper's loss has on its targets, in the plane and in 15 to 25 dimensions
ENERGY_WEIGHT = 0.5
MEMORY = 0.99  # weight of the past in the running average of the generator's weights


class Lengths(NamedTuple):
    """Longest chains from noise and from draws, and number of rows in a batch."""

    from_noise: int
    from_data: int
    batch: int


class Trained(NamedTuple):
    """State of the training: layers of both networks, their optimizers, the random key."""

    generator: Any
    average: Any
    critic: Any
    generator_optimizer: Any
    critic_optimizer: Any
    key: Any


class Trainer:
    """Training of a generator on standardized draws.

    couplings and weights are those of the generator, as in `Network`; critic_widths those of the
    hidden layers of the critic; seed that of batches, noise and the first weights of the critic.
    """

    def __init__(
        self,
        couplings: Sequence[Coupling],
        weights: np.ndarray,
        critic_widths: Sequence[int],
        lengths: Lengths,
        learning_rate: float,
        seed: int,
    ) -> None:
        self._moves = tuple(coupling.moves for coupling in couplings)
        ends = {c.moves: c.widths[-1] for c in couplings}
        self._dim, self._auxiliary, self._lengths = ends["z"], ends["v"], lengths
        self._optimizer = optax.adam(learning_rate, b1=0.5, b2=0.9)
        key, first = jax.random.split(jax.random.key(seed))
        generator = _layers(couplings, weights)
        critic = _random_layers(first, (2 * self._dim, *critic_widths, 1))
        optimizers = self._optimizer.init(generator), self._optimizer.init(critic)
        self._trained = Trained(generator, generator, critic, *optimizers, key)
        self._steps = jax.jit(self._scanned, static_argnums=2)

    def train(self, rows: np.ndarray, steps: int) -> tuple[float, float]:
        """Make generator steps on standardized draws; return mean losses (critic, generator)."""
        draws = jnp.asarray(rows, jnp.float32)
        self._trained, losses = self._steps(self._trained, draws, steps)
        critic, generator = np.asarray(losses).mean(axis=0)
        return float(critic), float(generator)

    def weights(self) -> np.ndarray:
        """Return the averaged weights of the generator, as in `Network`."""
        parts = [part for layers in self._trained.average for pair in layers for part in pair]
        return np.concatenate([np.asarray(part, float).ravel() for part in parts])

    def map(self, z: Any, v: Any) -> tuple[Any, Any]:
        """Apply the generator with averaged weights to rows of z and v."""
        return self._map(self._trained.average, jnp.asarray(z), jnp.asarray(v))

    def _map(self, generator: Any, z: Any, v: Any) -> tuple[Any, Any]:
        for moves, layers in zip(self._moves, generator, strict=True):
            if moves == "z":
                z = z + _perceptron(layers, v, jax.nn.relu)
            else:
                v = v + _perceptron(layers, z, jax.nn.relu)
        return z, v

    def _chain(self, generator: Any, z: Any, key: Any, longest: int) -> tuple[Any, Any]:
        """Return z and v after a random number of steps, equal for all rows."""
        length, noise = jax.random.split(key)
        last = jax.random.randint(length, (), 0, longest)

        def step(z: Any, key: Any) -> tuple[Any, Any]:
            fresh = jax.random.normal(key, (z.shape[0], self._auxiliary))
            z, v = self._map(generator, z, fresh)
            return z, (z, v)

        _, (all_z, all_v) = jax.lax.scan(step, z, jax.random.split(noise, longest))
        return all_z[last], all_v[last]

    def _fakes(self, generator: Any, rows: Any, key: Any) -> tuple[Any, Any]:
        """Return pairs (end, start) of chains, and the last v of each chain."""
        keys, sizes = jax.random.split(key, 4), self._lengths
        noise = jax.random.normal(keys[0], (sizes.batch, self._dim))
        one, v_one = self._chain(generator, noise, keys[1], sizes.from_noise)
        two, v_two = self._chain(generator, rows, keys[2], sizes.from_data)
        began = jax.lax.stop_gradient(one)
        three, v_three = self._chain(generator, began, keys[3], sizes.from_data)
        pairs = jnp.concatenate([jnp.hstack([two, rows]), jnp.hstack([three, one])])
        return pairs, jnp.concatenate([v_one, v_two, v_three])

    def _critic_loss(self, critic: Any, generator: Any, draws: Any, key: Any) -> Any:
        keys, n = jax.random.split(key, 4), self._lengths.batch
        fake, _ = self._fakes(generator, _rows(draws, n, keys[0]), keys[1])
        real = _rows(draws, 4 * n, keys[2]).reshape(2 * n, -1)
        mixing = jax.random.uniform(keys[3], (2 * n, 1))
        slopes = jax.vmap(jax.grad(lambda pair: _score(critic, pair)))(
            mixing * real + (1.0 - mixing) * fake
        )
        length = jnp.sqrt(jnp.sum(slopes**2, axis=1) + 1e-12)
        penalty = PENALTY * jnp.mean((length - 1.0) ** 2)
        return jnp.mean(_score(critic, real)) - jnp.mean(_score(critic, fake)) + penalty

    def _generator_loss(self, generator: Any, critic: Any, draws: Any, key: Any) -> Any:
        first, second = jax.random.split(key)
        pairs, v = self._fakes(generator, _rows(draws, self._lengths.batch, first), second)
        energy = 0.5 * jnp.mean(jnp.sum(v**2, axis=1))
        return jnp.mean(_score(critic, pairs)) + ENERGY_WEIGHT * energy

    def _step(self, now: Trained, draws: Any) -> tuple[Trained, Any]:
        key, last, *keys = jax.random.split(now.key, CRITIC_STEPS + 2)

        def criticize(state: Any, key: Any) -> tuple[Any, Any]:
            critic, optimizer = state
            loss, slope = jax.value_and_grad(self._critic_loss)(critic, now.generator, draws, key)
            change, optimizer = self._optimizer.update(slope, optimizer)
            return (optax.apply_updates(critic, change), optimizer), loss

        start = now.critic, now.critic_optimizer
        (critic, critic_optimizer), losses = jax.lax.scan(criticize, start, jnp.stack(keys))
        loss, slope = jax.value_and_grad(self._generator_loss)(now.generator, critic, draws, last)
        change, optimizer = self._optimizer.update(slope, now.generator_optimizer)
        generator = optax.apply_updates(now.generator, change)
        average = jax.tree.map(_update_average, now.average, generator)
        trained = Trained(generator, average, critic, optimizer, critic_optimizer, key)
        return trained, jnp.stack([losses.mean(), loss])

    def _scanned(self, trained: Trained, draws: Any, steps: int) -> tuple[Trained, Any]:
        return jax.lax.scan(lambda now, _: self._step(now, draws), trained, length=steps)


def _update_average(average: Any, now: Any) -> Any:
    return MEMORY * average + (1.0 - MEMORY) * now


def _rows(draws: Any, count: int, key: Any) -> Any:
    return draws[jax.random.randint(key, (count,), 0, draws.shape[0])]


def _score(critic: Any, pairs: Any) -> Any:
    return _perceptron(critic, pairs, lambda h: jax.nn.leaky_relu(h, SLOPE))[..., 0]


def _perceptron(layers: Any, h: Any, activation: Any) -> Any:
    for matrix, bias in layers[:-1]:
        h = activation(h @ matrix + bias)
    matrix, bias = layers[-1]
    return h @ matrix + bias


def _layers(couplings: Sequence[Coupling], weights: np.ndarray) -> Any:
    """Split flat weights into matrices and biases."""
    networks, begin = [], 0
    for _, widths in couplings:
        layers = []
        for inputs, outputs in itertools.pairwise(widths):
            end = begin + inputs * outputs
            matrix = weights[begin:end].reshape(inputs, outputs)
            layers.append((matrix, weights[end : end + outputs]))
            begin = end + outputs
        networks.append([tuple(jnp.asarray(part, jnp.float32) for part in pair) for pair in layers])
    return networks


def _random_layers(key: Any, widths: Sequence[int]) -> Any:
    keys = jax.random.split(key, len(widths))
    make = jax.nn.initializers.glorot_uniform()
    return [
        (make(k, (inputs, outputs)), jnp.zeros(outputs))
        for k, inputs, outputs in zip(keys, widths, widths[1:], strict=False)
    ]
