"""Progressive distillation's target: the x with which one DDIM step lands where two steps of the teacher do.

Salimans & Ho 2022 (arXiv 2202.00512), algorithm 2. Shapes as in `diffusion`.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from tpulab_recipes.ddpm.diffusion.diffusion import Denoiser, alpha_sigma, interpret, spread
from tpulab_recipes.ddpm.diffusion.sampling import ddim_step


def distillation_target(
    teacher: Denoiser, z: Array, start: Array, middle: Array, end: Array, mean_type: str, clip: bool = False
) -> Array:
    """x for a student that steps from `start` to `end` at once; the log-SNRs rise. Where `end` is infinite it
    is the teacher's own last x."""
    first = interpret(teacher(z, start), z, start, mean_type, clip)
    z_middle = ddim_step(z, first, middle)
    second = interpret(teacher(z_middle, middle), z_middle, middle, mean_type, clip)
    z_end = ddim_step(z_middle, second, end)
    return target_x(z, z_end, start, end, second.x)


def target_x(z: Array, z_end: Array, start: Any, end: Any, last_x: Array) -> Array:
    """Solves alpha_s x + sigma_s (z - alpha_t x) / sigma_t = z_end for x."""
    alpha_t, sigma_t = alpha_sigma(spread(start, z))
    alpha_s, sigma_s = alpha_sigma(spread(end, z))
    ratio = sigma_s / sigma_t
    x = (z_end - ratio * z) / (alpha_s - ratio * alpha_t)
    return jnp.where(jnp.isinf(spread(end, z)), last_x, x)
