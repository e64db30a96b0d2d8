"""The mathematics of a diffusion model: noise schedules, forward process, kinds of prediction, loss weights.

Shapes: x, z, eps and v are Float[batch, height, width, channel], a log-SNR is Float[batch]. A schedule keeps
the variance: z = alpha x + sigma eps with alpha^2 + sigma^2 = 1, and log-SNR = log(alpha^2 / sigma^2).
Sources: Ho et al. 2020 (arXiv 2006.11239), Salimans & Ho 2022 (arXiv 2202.00512), Choi et al. 2022 (P2, arXiv
2204.00227).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

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
    """The schedule that a configuration describes. Discrete schedules end after `num_steps` (0: all
    steps)."""
    if schedule.name == "cosine":
        return CosineSchedule(schedule.logsnr_min, schedule.logsnr_max)
    alphas = linear_alphas_bar(schedule)[: num_steps or None]
    return DiscreteSchedule(np.log(alphas) - np.log1p(-alphas), tmin)


#: (z, log-SNR) to the prediction of the network.
Denoiser = Callable[[Array, Array], Array]


class Prediction(NamedTuple):
    """The same prediction in two forms."""

    x: Array
    eps: Array


def spread(values: Any, like: Array) -> Array:
    """Float[batch] with axes of length one appended, to be multiplied with `like`."""
    values = jnp.asarray(values)
    return values.reshape(values.shape + (1,) * (like.ndim - values.ndim))


def diffuse(x: Array, logsnr: Array, eps: Array) -> Array:
    """z at this noise level: alpha x + sigma eps."""
    alpha, sigma = alpha_sigma(spread(logsnr, x))
    return alpha * x + sigma * eps


def velocity(x: Array, eps: Array, logsnr: Array) -> Array:
    """v = alpha eps - sigma x."""
    alpha, sigma = alpha_sigma(spread(logsnr, x))
    return alpha * eps - sigma * x


def interpret(output: Array, z: Array, logsnr: Array, mean_type: str, clip: bool = False) -> Prediction:
    """x and eps from a network's output of kind `mean_type`; `clip` keeps x within [-1, 1], and adjusts eps
    to match."""
    alpha, sigma = alpha_sigma(spread(logsnr, z))
    if mean_type == "v":
        x, eps = alpha * z - sigma * output, sigma * z + alpha * output
    elif mean_type == "eps":
        x, eps = (z - sigma * output) / alpha, output
    elif mean_type == "x":
        x, eps = output, (z - alpha * output) / sigma
    else:
        raise ValueError(f"unknown kind of prediction {mean_type!r}")
    if clip:
        x = jnp.clip(x, -1.0, 1.0)
        eps = (z - alpha * x) / sigma
    return Prediction(x, eps)


def target(x: Array, eps: Array, logsnr: Array, mean_type: str) -> Array:
    """The target of a network with this parametrisation."""
    if mean_type == "v":
        return velocity(x, eps, logsnr)
    return {"eps": eps, "x": x}[mean_type]


def log_weight(logsnr: Array, kind: str) -> Array:
    """Logarithm of the weight of the squared error *in x*. `snr` is the same as no weight on the error in
    eps, `v_mse` as none on the error in v."""
    log_sigma2 = jax.nn.log_sigmoid(-logsnr)
    return {
        "constant": jnp.zeros_like(logsnr),
        "snr": logsnr,
        "snr_trunc": jnp.maximum(logsnr, 0.0),
        "v_mse": -log_sigma2,
        "root_snr": 0.5 * logsnr,
        "p2": logsnr + log_sigma2,
        "p2_half": logsnr + 0.5 * log_sigma2,
    }[kind]


def log_error_scale(logsnr: Array, mean_type: str) -> Array:
    """Logarithm of (squared error in x) / (squared error in the prediction)."""
    return {"x": jnp.zeros_like(logsnr), "eps": -logsnr, "v": jax.nn.log_sigmoid(-logsnr)}[mean_type]


def weighted_error(output: Array, wanted: Array, logsnr: Array, mean_type: str, weight: str) -> Array:
    """Float[batch]: weight * mean squared error in x.

    The error is taken in the network's own kind and scaled, which stays exact where x itself cannot be
    recovered from eps (alpha near 0).
    """
    error = jnp.square(output.astype(jnp.float32) - wanted).mean(axis=tuple(range(1, wanted.ndim)))
    return error * jnp.exp(log_weight(logsnr, weight) + log_error_scale(logsnr, mean_type))


def guided(conditional: Array, unconditional: Array, scale: Any) -> Array:
    """Classifier-free guidance (Ho & Salimans 2022, arXiv 2207.12598): u + scale (c - u)."""
    return unconditional + spread(scale, conditional) * (conditional - unconditional)
