"""The mathematics, in double precision where an identity is claimed, against closed forms."""

from __future__ import annotations

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tpulab_recipes.ddpm.config import AlphaSchedule, LossWeight
from tpulab_recipes.ddpm.diffusion.diffusion import (
    CosineSchedule,
    alpha_sigma,
    diffuse,
    guided,
    interpret,
    linear_alphas_bar,
    log_weight,
    schedule_from,
    target,
    velocity,
    weighted_error,
)

pytestmark = pytest.mark.usefixtures("double_precision")
LINEAR = AlphaSchedule()
LOGSNR = np.linspace(-9.0, 9.0, 7)


@pytest.fixture
def cases() -> dict[str, jax.Array]:
    keys = jax.random.split(jax.random.key(0), 2)
    x, eps = (jax.random.normal(key, (len(LOGSNR), 4, 4, 3), jnp.float64) for key in keys)
    logsnr = jnp.asarray(LOGSNR)
    return {"x": x, "eps": eps, "logsnr": logsnr, "z": diffuse(x, logsnr, eps)}


@pytest.mark.parametrize("kind", ["v", "eps", "x"])
def test_every_kind_of_prediction_gives_back_x_and_eps(cases: dict[str, jax.Array], kind: str) -> None:
    output = target(cases["x"], cases["eps"], cases["logsnr"], kind)
    found = interpret(output, cases["z"], cases["logsnr"], kind)
    np.testing.assert_allclose(found.x, cases["x"], atol=1e-6)
    np.testing.assert_allclose(found.eps, cases["eps"], atol=1e-6)


def test_a_clipped_prediction_stays_consistent_with_z(cases: dict[str, jax.Array]) -> None:
    output = velocity(3 * cases["x"], cases["eps"], cases["logsnr"])
    found = interpret(output, cases["z"], cases["logsnr"], "v", clip=True)
    assert float(abs(found.x).max()) <= 1
    np.testing.assert_allclose(diffuse(found.x, cases["logsnr"], found.eps), cases["z"], atol=1e-6)


@pytest.mark.parametrize("weight", get_args(LossWeight))
def test_the_loss_is_the_same_for_each_kind_of_prediction(cases: dict[str, jax.Array], weight: str) -> None:
    wrong_x, wrong_eps = cases["x"] + 0.1, None
    alpha, sigma = alpha_sigma(cases["logsnr"][:, None, None, None])
    wrong_eps = (cases["z"] - alpha * wrong_x) / sigma
    snr = np.exp(LOGSNR)
    expected = (
        0.01
        * {
            "constant": np.ones_like(snr),
            "snr": snr,
            "snr_trunc": np.maximum(snr, 1),
            "v_mse": snr + 1,
            "root_snr": np.sqrt(snr),
            "p2": snr / (1 + snr),
            "p2_half": snr / np.sqrt(1 + snr),
        }[weight]
    )
    for kind in ("x", "eps", "v"):
        printed = target(wrong_x, wrong_eps, cases["logsnr"], kind)
        wanted = target(cases["x"], cases["eps"], cases["logsnr"], kind)
        # The error is taken in fp32, as in training.
        loss = weighted_error(printed, wanted, cases["logsnr"], kind, weight)
        np.testing.assert_allclose(loss, expected, rtol=3e-4, atol=1e-9)


def test_the_weight_snr_is_plain_squared_error_of_eps_exactly(cases: dict[str, jax.Array]) -> None:
    far = jnp.full(len(LOGSNR), -60.0)  # here x cannot be recovered from eps at all
    loss = weighted_error(cases["eps"] + 0.5, cases["eps"], far, "eps", "snr")
    np.testing.assert_allclose(loss, 0.25, rtol=1e-6)
    assert float(abs(log_weight(far, "p2") - far).max()) < 1e-6


def test_the_forward_process_has_the_moments_that_it_claims() -> None:
    keys = jax.random.split(jax.random.key(1), 2)
    x = 0.5 + 0.25 * jax.random.normal(keys[0], (200_000, 1))
    eps = jax.random.normal(keys[1], x.shape)
    for logsnr in (-4.0, 0.0, 4.0):
        alpha, sigma = (float(part) for part in alpha_sigma(logsnr))
        z = diffuse(x, jnp.full(len(x), logsnr), eps)
        assert float(z.mean()) == pytest.approx(0.5 * alpha, abs=0.01)
        assert float(z.var()) == pytest.approx((0.25 * alpha) ** 2 + sigma**2, rel=0.02)


def test_the_linear_schedule_ends_where_published() -> None:
    alphas = linear_alphas_bar(LINEAR)
    assert alphas[-1] == pytest.approx(0.00158, abs=5e-6)
    schedule = schedule_from(LINEAR, 1000, 5)
    table = schedule.levels(1000)
    assert table[0] == pytest.approx(-6.45, abs=0.005)
    assert schedule.table[5] == pytest.approx(5.24, abs=0.005)
    betas = np.linspace(0.00085, 0.012, 1000)
    by_hand = np.exp(np.log1p(-betas).cumsum())
    np.testing.assert_allclose(alphas, by_hand, rtol=1e-12)


def test_the_cosine_schedule_meets_both_ends_and_is_a_cosine() -> None:
    schedule = CosineSchedule(-20.0, 20.0)
    assert float(schedule.logsnr(0.0)) == pytest.approx(20, abs=1e-6)
    assert float(schedule.logsnr(1.0)) == pytest.approx(-20, abs=1e-6)
    # Nearly alpha = cos(pi t / 2): the ends are all that differs.
    times = np.linspace(0.05, 0.95, 10)
    np.testing.assert_allclose(alpha_sigma(schedule.logsnr(times))[0], np.cos(np.pi * times / 2), atol=1e-4)


def test_fifty_sampling_steps_visit_the_timesteps_that_the_origin_names() -> None:
    steps = schedule_from(LINEAR).timesteps(50)
    assert steps[0] == 999
    assert steps[-1] == 19
    assert set(np.diff(steps)) == {-20}
    assert np.isinf(schedule_from(LINEAR).levels(50)[-1])


def test_noise_levels_are_drawn_from_the_allowed_timesteps_only() -> None:
    schedule = schedule_from(LINEAR, 1000, 5)
    drawn = np.asarray(schedule.draw(jax.random.key(0), 50_000))
    assert drawn.max() <= schedule.table[5] + 1e-5
    assert len(np.unique(drawn)) == 995


def test_infinite_log_snr_means_no_noise_at_all() -> None:
    alpha, sigma = alpha_sigma(jnp.inf)
    assert (float(alpha), float(sigma)) == (1.0, 0.0)


def test_guidance_at_scale_one_is_the_conditional_prediction_and_at_zero_the_other() -> None:
    reported, untold = jnp.arange(4.0), jnp.arange(4.0)[::-1]
    np.testing.assert_allclose(guided(reported, untold, 1.0), reported, atol=1e-6)
    np.testing.assert_allclose(guided(reported, untold, 0.0), untold, atol=1e-6)
    np.testing.assert_allclose(guided(reported, untold, 3.0), untold + 3 * (reported - untold), atol=1e-6)
