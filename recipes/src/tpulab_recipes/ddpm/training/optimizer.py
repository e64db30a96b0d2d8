"""Adam with decoupled weight decay, its learning rate, clipping, and skipping of broken updates.

The gradient is averaged over all devices first and clipped afterwards, so that the update does not depend on
how many devices share the batch. (The origin clipped on each device, before averaging.)
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from tpulab_recipes.ddpm.config import Config, Train

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
    warm = max(train.learning_rate_warmup_steps, 1)
    warmup = optax.linear_schedule(1 / warm, 1.0, warm - 1)
    cosine = optax.cosine_decay_schedule(
        1.0, train.iterations, alpha=train.min_learning_rate / train.max_learning_rate
    )
    return jnp.minimum(warmup(step), cosine(step))


def clip_gradient(gradient: Any, largest: float) -> tuple[Any, Array]:
    """The gradient with a norm of at most `largest` (0: as it is), and the norm before."""
    norm = optax.tree.norm(gradient)
    scale = jnp.minimum(1.0, largest / (norm + 1e-12)) if largest else 1.0
    return jax.tree.map(lambda leaf: leaf * scale, gradient), norm


def default_hyperparameters(config: Config) -> dict[str, np.ndarray]:
    """What may change while training runs, as arrays: a change compiles nothing. They are arrays of the host:
    of a device's, JAX would check at every step, by a gather over all hosts, that they are alike."""
    return {
        "learning_rate": np.asarray(config.train.max_learning_rate, np.float32),
        "ema_decay": np.asarray(config.train.ema_decay, np.float32),
    }
