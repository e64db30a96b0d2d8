"""From noise to images: DDIM and ancestral steps, and one loop for both that compiles once for every number
of steps.

Sources: DDIM, Song et al. 2020 (arXiv 2010.02502); the posterior in log-SNR form, Salimans & Ho 2022 (arXiv
2202.00512, appendix A); replacement of what is known, Lugmayr et al. 2022 (arXiv 2201.09865).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tpulab_recipes.ddpm.diffusion.diffusion import (
    Denoiser,
    Prediction,
    Schedule,
    alpha_sigma,
    diffuse,
    interpret,
    spread,
)

#: Sampling programs take noise levels of this length, so that one program serves all numbers of steps up to
#: it.
MAX_STEPS = 1024


class Levels(NamedTuple):
    """The noise levels that a sampler visits."""

    logsnr: Array  # Float[MAX_STEPS + 1]; entries after `count` are not used
    count: Array  # Int[]


def sampling_levels(schedule: Schedule, steps: int) -> Levels:
    """The levels for `steps` steps, in the fixed length that sampling programs expect."""
    if steps > MAX_STEPS:
        raise ValueError(f"at most {MAX_STEPS} sampling steps are possible, not {steps}")
    padded = np.full(MAX_STEPS + 1, np.inf, np.float32)
    padded[: steps + 1] = schedule.levels(steps)
    return Levels(jnp.asarray(padded), jnp.asarray(steps, jnp.int32))


def ddim_step(z: Array, prediction: Prediction, logsnr_to: Any) -> Array:
    """z at the next level, without fresh noise: alpha_s x + sigma_s eps. At infinity this is x."""
    alpha, sigma = alpha_sigma(spread(logsnr_to, z))
    return alpha * prediction.x + sigma * prediction.eps


class Posterior(NamedTuple):
    """q(z_s | z_t, x): mean, and logarithms of the smallest and the largest sensible variance."""

    mean: Array
    log_small: Array
    log_large: Array


def posterior(z: Array, x: Array, logsnr_from: Any, logsnr_to: Any) -> Posterior:
    """Of the next level `logsnr_to` (less noise), given z at `logsnr_from` and the clean x."""
    logsnr_t, logsnr_s = spread(logsnr_from, z), spread(logsnr_to, z)
    alpha_s = alpha_sigma(logsnr_s)[0]
    alpha_t = alpha_sigma(logsnr_t)[0]
    ratio = jnp.exp(logsnr_t - logsnr_s)
    rest = -jnp.expm1(logsnr_t - logsnr_s)
    mean = ratio * (alpha_s / alpha_t) * z + rest * alpha_s * x
    log_rest = jnp.log(rest)
    return Posterior(mean, log_rest + jax.nn.log_sigmoid(-logsnr_s), log_rest + jax.nn.log_sigmoid(-logsnr_t))


def ancestral_step(
    z: Array,
    prediction: Prediction,
    logsnr_from: Any,
    logsnr_to: Any,
    noise: Array,
    logvar_type: str,
    coefficient: float = 0.5,
) -> Array:
    """z at the next level with fresh noise; at infinity it is x, without noise."""
    q = posterior(z, prediction.x, logsnr_from, logsnr_to)
    logvar = {
        "fixed_small": q.log_small,
        "fixed_large": q.log_large,
        "fixed_medium": (1 - coefficient) * q.log_small + coefficient * q.log_large,
    }[logvar_type]
    last = jnp.isinf(spread(logsnr_to, z))
    deviation = jnp.exp(0.5 * jnp.where(last, 0.0, logvar))
    return jnp.where(last, prediction.x, q.mean + deviation * noise)


class Inpainting(NamedTuple):
    """What must not change: `x` where `mask` is 0. The mask is 1 where something is to be made."""

    x: Array  # Float[batch, height, width, channel]
    mask: Array  # Float[batch, height, width, 1]


def sample_loop(
    denoise: Denoiser,
    z: Array,
    levels: Levels,
    key: Array,
    *,
    mean_type: str,
    sampler: str = "ddim",
    logvar_type: str = "fixed_large",
    logvar_coefficient: float = 0.5,
    clip: bool = False,
    known: Inpainting | None = None,
) -> Array:
    """x from noise z. The number of steps is data, not shape: changing it recompiles nothing."""

    def step(index: Array, z: Array) -> Array:
        here, there = levels.logsnr[index], levels.logsnr[index + 1]
        there = jnp.where(index + 1 >= levels.count, jnp.inf, there)
        batch = jnp.full(z.shape[:1], here)
        prediction = interpret(denoise(z, batch), z, batch, mean_type, clip)
        noise_key, known_key = jax.random.split(jax.random.fold_in(key, index))
        if sampler == "ddim":
            z = ddim_step(z, prediction, there)
        else:
            noise = jax.random.normal(noise_key, z.shape, z.dtype)
            z = ancestral_step(z, prediction, here, there, noise, logvar_type, logvar_coefficient)
        if known is not None:
            eps = jax.random.normal(known_key, z.shape, z.dtype)
            level = jnp.full(z.shape[:1], there)
            z = known.mask * z + (1 - known.mask) * diffuse(known.x, level, eps)
        return z

    result: Array = jax.lax.fori_loop(0, levels.count, step, z)
    return result
