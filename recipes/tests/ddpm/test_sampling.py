"""Samplers against analytic models: a point, and a Gaussian, whose best prediction is known in closed
form."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tpulab_recipes.ddpm.diffusion.diffusion import CosineSchedule, alpha_sigma, diffuse, interpret, spread
from tpulab_recipes.ddpm.diffusion.sampling import (
    MAX_STEPS,
    Inpainting,
    Levels,
    ancestral_step,
    ddim_step,
    posterior,
    sample_loop,
    sampling_levels,
)
from tpulab_recipes.ddpm.training.distiller import distillation_target

pytestmark = pytest.mark.usefixtures("double_precision")
MEAN, DEVIATION = 0.3, 0.5
SCHEDULE = CosineSchedule(-14.0, 14.0)
Denoise = Callable[[jax.Array, jax.Array], jax.Array]


def gaussian(z: jax.Array, logsnr: jax.Array, deviation: float = DEVIATION) -> jax.Array:
    """E[x | z] for x ~ N(MEAN, deviation^2): the prediction of a perfect network of kind x."""
    alpha, sigma = alpha_sigma(spread(logsnr, z))
    gain = alpha * deviation**2 / (alpha**2 * deviation**2 + sigma**2)
    return MEAN + gain * (z - alpha * MEAN)


def point(z: jax.Array, logsnr: jax.Array) -> jax.Array:
    return jnp.full_like(z, MEAN) + 0 * spread(logsnr, z)


def levels(steps: int) -> Levels:
    """In the precision of the test, unlike those for compiled samplers."""
    padded = np.full(MAX_STEPS + 1, np.inf)
    padded[: steps + 1] = SCHEDULE.levels(steps)
    return Levels(jnp.asarray(padded), jnp.asarray(steps))


def sample(denoise: Denoise, z: jax.Array, steps: int, sampler: str = "ddim", **more: object) -> np.ndarray:
    run = jax.jit(
        lambda z: sample_loop(
            denoise, z, levels(steps), jax.random.key(0), mean_type="x", sampler=sampler, **more
        )  # type: ignore[arg-type]
    )
    return np.asarray(run(z))


@pytest.fixture
def noise() -> jax.Array:
    return jax.random.normal(jax.random.key(3), (16, 1, 1, 1), jnp.float64)


@pytest.mark.parametrize("steps", [1, 2, 7, 50])
def test_ddim_is_exact_for_a_point_in_any_number_of_steps(noise: jax.Array, steps: int) -> None:
    np.testing.assert_allclose(sample(point, noise, steps), MEAN, atol=1e-6)


@pytest.mark.parametrize("steps", [1, 4, 33])
def test_ddim_on_a_gaussian_is_the_product_of_its_linear_maps(noise: jax.Array, steps: int) -> None:
    visited = SCHEDULE.levels(steps)
    gain, offset = 1.0, 0.0
    for here, there in itertools.pairwise(visited):
        a_t, s_t = (float(part) for part in alpha_sigma(here))
        a_s, s_s = (float(part) for part in alpha_sigma(there))
        variance = a_t**2 * DEVIATION**2 + s_t**2
        # x = MEAN + a_t d^2 / variance (z - a_t MEAN) and eps = s_t / variance (z - a_t MEAN)
        slope = a_s * a_t * DEVIATION**2 / variance + s_s * s_t / variance
        gain, offset = slope * gain, slope * (offset - a_t * MEAN) + a_s * MEAN
    np.testing.assert_allclose(sample(gaussian, noise, steps), gain * noise + offset, atol=1e-6)


def test_ddim_approaches_the_exact_flow_as_steps_are_added(noise: jax.Array) -> None:
    # The flow keeps z's distance from its mean in units of its deviation.
    a, s = (float(part) for part in alpha_sigma(SCHEDULE.levels(1)[0]))
    exact = MEAN + DEVIATION * (noise - a * MEAN) / np.sqrt(a**2 * DEVIATION**2 + s**2)
    errors = [float(abs(sample(gaussian, noise, steps) - exact).max()) for steps in (64, 128, 256, 512)]
    ratios = np.divide(errors[:-1], errors[1:])
    assert all(1.8 < ratio < 2.2 for ratio in ratios), errors
    assert errors[-1] < 0.01


@pytest.mark.parametrize("kind", ["fixed_small", "fixed_medium", "fixed_large"])
def test_ancestral_sampling_reproduces_the_gaussian(kind: str) -> None:
    noise = jax.random.normal(jax.random.key(5), (20_000, 1, 1, 1), jnp.float64)
    drawn = sample(gaussian, noise, 400, "ancestral", logvar_type=kind, logvar_coefficient=0.5)
    assert drawn.mean() == pytest.approx(MEAN, abs=0.02)
    assert drawn.std() == pytest.approx(DEVIATION, rel=0.04)


def test_the_posterior_matches_two_gaussian_steps() -> None:
    t, s = -1.0, 1.5
    a_t, s_t = (float(part) for part in alpha_sigma(t))
    a_s, s_s = (float(part) for part in alpha_sigma(s))
    step_gain = a_t / a_s
    step_variance = s_t**2 - step_gain**2 * s_s**2
    x, z = 0.7, -0.2
    # Bayes for z_s ~ N(a_s x, s_s^2) and z_t ~ N(gain z_s, step_variance).
    precision = 1 / s_s**2 + step_gain**2 / step_variance
    mean = (a_s * x / s_s**2 + step_gain * z / step_variance) / precision
    q = posterior(jnp.full((1,), z), jnp.full((1,), x), jnp.full((1,), t), jnp.full((1,), s))
    assert float(q.mean[0]) == pytest.approx(mean, abs=1e-6)
    assert float(jnp.exp(q.log_small[0])) == pytest.approx(1 / precision, abs=1e-6)
    assert float(jnp.exp(q.log_large[0])) == pytest.approx(step_variance, abs=1e-6)


def test_the_last_step_returns_x_without_noise(noise: jax.Array) -> None:
    here, last = jnp.full(16, 5.0), jnp.full(16, jnp.inf)
    prediction = interpret(gaussian(noise, here), noise, here, "x")
    huge = jnp.full_like(noise, 1e6)
    np.testing.assert_array_equal(ddim_step(noise, prediction, last), prediction.x)
    done = ancestral_step(noise, prediction, here, last, huge, "fixed_large")
    np.testing.assert_array_equal(done, prediction.x)


def test_one_program_samples_with_any_number_of_steps() -> None:
    run = jax.jit(lambda z, levels: sample_loop(gaussian, z, levels, jax.random.key(0), mean_type="x"))
    z = jax.random.normal(jax.random.key(0), (4, 1, 1, 1))
    results = [run(z, sampling_levels(SCHEDULE, steps)) for steps in (4, 9, 64)]
    assert run._cache_size() == 1
    assert abs(results[0] - results[1]).max() > 1e-4


def test_the_known_part_stays_unchanged(noise: jax.Array) -> None:
    mask = (jnp.arange(16) < 8).astype(jnp.float64).reshape(16, 1, 1, 1)
    given = jnp.full_like(noise, 0.123)
    made = sample(gaussian, noise, 10, known=Inpainting(given, mask))
    np.testing.assert_allclose(made[8:], 0.123, atol=1e-12)
    assert abs(made[:8] - 0.123).max() > 0.01


def test_a_student_with_half_the_steps_lands_where_its_teacher_does(noise: jax.Array) -> None:
    """The student here is the distillation target itself, at every level that the student visits."""
    for steps in (64, 8, 2):
        fine = SCHEDULE.levels(steps)
        coarse = fine[::2]
        middle = {
            float(start): float(between) for start, between in zip(coarse[:-1], fine[1::2], strict=True)
        }
        z = noise
        for start, end in itertools.pairwise(coarse):
            here = [jnp.full(16, level) for level in (start, middle[float(start)], end)]
            x = distillation_target(gaussian, z, *here, "x")
            z = ddim_step(z, interpret(x, z, here[0], "x"), here[2])
        np.testing.assert_allclose(z, sample(gaussian, noise, steps), atol=1e-6)


def test_a_student_fitted_to_the_targets_samples_like_its_teacher(noise: jax.Array) -> None:
    """Distillation as it is done: a model with parameters is fitted to targets, halving from 16 steps to
    1."""
    teacher: Denoise = gaussian
    steps = 16
    drawn = jax.random.normal(jax.random.key(9), (64, 1, 1, 1), jnp.float64)
    reference = sample(gaussian, noise, steps)
    while steps > 1:
        fine = SCHEDULE.levels(steps)
        fits = []
        for place in range(0, steps, 2):
            here = [jnp.full(64, level) for level in fine[place : place + 3]]
            z = diffuse(MEAN + DEVIATION * drawn[::-1], here[0], drawn)
            goal = distillation_target(teacher, z, *here, "x")
            slope, offset = np.polyfit(np.asarray(z).ravel(), np.asarray(goal).ravel(), 1)
            fits.append((float(fine[place]), slope, offset))
        table = np.asarray(fits)

        def student(z: jax.Array, logsnr: jax.Array, table: np.ndarray = table) -> jax.Array:
            nearest = jnp.argmin(abs(jnp.asarray(table[:, 0]) - logsnr[:, None]), axis=1)
            slope, offset = (jnp.asarray(table)[nearest, column] for column in (1, 2))
            return spread(slope, z) * z + spread(offset, z)

        teacher, steps = student, steps // 2
        np.testing.assert_allclose(sample(teacher, noise, steps), reference, atol=1e-6)
