"""Noise schedules, all expressed by the log signal-to-noise ratio.

A schedule keeps the variance: z = alpha x + sigma eps with alpha^2 + sigma^2 = 1, and log-SNR = log(alpha^2
/ sigma^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tpulab_recipes.ddpm.config import AlphaSchedule


def alpha_sigma(logsnr: Any) -> tuple[Array, Array]:
    """alpha and sigma of a log-SNR; infinity gives exactly 1 and 0."""
    logsnr = jnp.asarray(logsnr)
    return jnp.sqrt(jax.nn.sigmoid(logsnr)), jnp.sqrt(jax.nn.sigmoid(-logsnr))


def linear_alphas_bar(schedule: AlphaSchedule) -> np.ndarray:
    """Float64[steps]: cumulated products of 1 - beta, with betas equally spaced (Ho et al. 2020, arXiv
    2006.11239)."""
    betas = np.linspace(schedule.beta_start, schedule.beta_end, schedule.steps)
    return np.asarray(np.cumprod(1.0 - betas))


@dataclass(frozen=True)
class DiscreteSchedule:
    """Noise levels at whole timesteps 0 (clean) to steps - 1 (noise)."""

    table: np.ndarray  # Float64[steps], log-SNR
    tmin: int

    def draw(self, key: Array, count: int) -> Array:
        """Float[count]: log-SNRs of timesteps drawn evenly from [tmin, steps)."""
        timesteps = jax.random.randint(key, (count,), self.tmin, len(self.table))
        return jnp.asarray(self.table, jnp.float32)[timesteps]

    def timesteps(self, steps: int) -> np.ndarray:
        """Int[steps], falling: `steps` equal strides that end at the noisiest timestep."""
        total = len(self.table)
        if not 1 <= steps <= total:
            raise ValueError(f"between 1 and {total} sampling steps are possible, not {steps}")
        return np.round(np.arange(total, 0, -total / steps)).astype(int)[:steps] - 1

    def levels(self, steps: int) -> np.ndarray:
        """Float64[steps + 1]: log-SNRs from noise to clean; the last is infinity (no noise)."""
        return np.append(self.table[self.timesteps(steps)], np.inf)


@dataclass(frozen=True)
class CosineSchedule:
    """Continuous time in [0, 1]: alpha = cos, sigma = sin of an angle that grows evenly (arXiv 2202.00512,
    sec. 3)."""

    logsnr_min: float
    logsnr_max: float

    def logsnr(self, time: Any, numpy: Any = jnp) -> Any:
        low = math.atan(math.exp(-0.5 * self.logsnr_max))
        high = math.atan(math.exp(-0.5 * self.logsnr_min))
        return -2.0 * numpy.log(numpy.tan(low + (high - low) * time))

    def draw(self, key: Array, count: int) -> Array:
        return jnp.asarray(self.logsnr(jax.random.uniform(key, (count,))))

    def levels(self, steps: int) -> np.ndarray:
        if steps < 1:
            raise ValueError(f"at least one sampling step is needed, not {steps}")
        return np.append(self.logsnr(np.arange(steps, 0, -1) / steps, np), np.inf)


Schedule = DiscreteSchedule | CosineSchedule


def schedule_from(schedule: AlphaSchedule, num_steps: int = 0, tmin: int = 0) -> Schedule:
    """The schedule that a configuration describes. Discrete ones are cut after `num_steps` (0: not at
    all)."""
    if schedule.name == "cosine":
        return CosineSchedule(schedule.logsnr_min, schedule.logsnr_max)
    alphas = linear_alphas_bar(schedule)[: num_steps or None]
    return DiscreteSchedule(np.log(alphas) - np.log1p(-alphas), tmin)
