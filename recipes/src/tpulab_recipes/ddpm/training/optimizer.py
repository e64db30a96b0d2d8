"""Adam with decoupled weight decay, its learning rate, clipping, the moving average, and skipping of broken
updates.

The gradient is averaged over all devices first and clipped afterwards, so that the update does not depend on
how many devices share the batch. (The origin clipped on each device, before averaging.)
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tpulab_recipes.ddpm.config import Config, Train

Array: TypeAlias = jax.Array
#: So many broken gradients in a row end the training.
MAX_SKIPPED = 100


def make_optimizer(train: Train) -> optax.GradientTransformation:
    """Everything but the learning rate, which the step multiplies in as an array."""
    return optax.chain(
        optax.scale_by_adam(b1=0.9, b2=train.adam_beta2, eps=1e-8),
        optax.add_decayed_weights(train.weight_decay, mask=_decays),
    )


def _decays(params: Any) -> Any:
    # Norms and biases are not pulled towards zero.
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)


def learning_rate_factor(step: Array, train: Train) -> Array:
    """Share of the largest learning rate at a step: a linear warm-up, and a cosine down to the smallest."""
    step = jnp.asarray(step, jnp.float32)
    warmup = (step + 1) / max(train.learning_rate_warmup_steps, 1)
    floor = train.min_learning_rate / train.max_learning_rate
    done = jnp.clip(step / train.iterations, 0.0, 1.0)
    cosine = floor + (1 - floor) * 0.5 * (1 + jnp.cos(math.pi * done))
    return jnp.minimum(jnp.minimum(warmup, 1.0), cosine)


def clip_gradient(gradient: Any, largest: float) -> tuple[Any, Array]:
    """The gradient with a norm of at most `largest` (0: as it is), and the norm before."""
    norm = optax.global_norm(gradient)
    if not largest:
        return gradient, norm
    scale = jnp.minimum(1.0, largest / (norm + 1e-12))
    return jax.tree.map(lambda leaf: leaf * scale, gradient), norm


def moving_average(average: Any, params: Any, decay: Array) -> Any:
    """decay * average + (1 - decay) * params."""
    return jax.tree.map(lambda a, p: a + (1 - decay) * (p - a), average, params)


def choose(use_first: Array, first: Any, second: Any) -> Any:
    """One of two trees, by a condition that is data."""
    return jax.tree.map(lambda a, b: jnp.where(use_first, a, b), first, second)


def default_hyperparameters(config: Config) -> dict[str, np.ndarray]:
    """What may change while training runs, as arrays: a change compiles nothing. They are arrays of the host:
    of a device's, JAX would check at every step, by a gather over all hosts, that they are alike."""
    return {
        "learning_rate": np.asarray(config.train.max_learning_rate, np.float32),
        "ema_decay": np.asarray(config.train.ema_decay, np.float32),
    }
