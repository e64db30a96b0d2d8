"""The network: attention against its plain form, conditioning, and shapes."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.ddpm.config import Conditioning, Config, UNetArgs
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.model.context import ContextSequence, draw_masks, drop_conditioning, unconditional
from tpulab_recipes.ddpm.model.layers import Attention, position_map, sinusoids
from tpulab_recipes.ddpm.model.unet import count_parameters
from tpulab_recipes.ddpm.presets import CIFAR10
from tpulab_recipes.ddpm.prompts import context_for

KEYS = jax.random.split(jax.random.key(0), 8)


def test_attention_of_a_bf16_network_weighs_in_fp32() -> None:
    """Layers that change nothing: softmax attention of x to itself. Scores rounded to bf16 before the softmax
    are off by 0.00067 here, and by 0.00038 with fp32 scores."""
    layer = Attention(128, 128, UNetArgs(head_dim=32), rngs=nnx.Rngs(0))
    layer.to_q.kernel.set_value(jnp.eye(128))
    layer.to_kv.kernel.set_value(jnp.tile(jnp.eye(128), (1, 2)))
    layer.to_out.kernel.set_value(jnp.eye(128))
    x, context = (jax.random.normal(key, (2, 256, 128), jnp.bfloat16) for key in KEYS[:2])
    heads, reported = (np.asarray(value, np.float64).reshape(2, 256, 4, 32) for value in (x, context))
    shares = np.exp(np.einsum("bqhd,bkhd->bhqk", heads, reported) / 32**0.5)
    expected = np.einsum("bhqk,bkhd->bqhd", shares / shares.sum(-1, keepdims=True), reported)
    found = np.asarray(layer(x, context), np.float64).reshape(expected.shape)
    assert np.sqrt(np.mean((found - expected) ** 2)) < 5e-4


def _sequence(conditioning: Conditioning) -> ContextSequence:
    """With random parameters, biases included: those of a bare module are zeros that `Network.init`
    replaces."""
    sequence = ContextSequence(conditioning, UNetArgs(seq_width=16), rngs=nnx.Rngs(0))
    rng = np.random.default_rng(0)
    parameters = nnx.state(sequence, nnx.Param)
    drawn = jax.tree.map(lambda leaf: jnp.asarray(rng.standard_normal(leaf.shape), leaf.dtype), parameters)
    nnx.update(sequence, drawn)
    return sequence


def test_scores_are_scaled_before_they_are_clipped() -> None:
    """All scores above 1 looked the same to the origin's network."""
    sequence = _sequence(Conditioning(0, 0, 0, 0, 0, ("aesth_score", "height")))
    scores = jnp.array([2.0, 5.5, 9.0, 20.0])
    np.testing.assert_allclose(sequence.scaled("aesth_score", scores), [0, 0.5, 1, 1], atol=1e-6)
    np.testing.assert_allclose(sequence.scaled("height", jnp.array([256.0, 4096.0])), [0.25, 1], atol=1e-6)
    tokens = sequence({"aesth_score": scores, "height": jnp.ones(4)}, 4)
    assert tokens.shape == (4, 3, 16)
    assert float(abs(tokens[1, 1] - tokens[2, 1]).max()) > 1e-3
    np.testing.assert_array_equal(tokens[2, 1], tokens[3, 1])


def test_a_dropped_score_leaves_no_trace() -> None:
    sequence = _sequence(Conditioning(0, 0, 0, 0, 0, ("aesth_score",)))
    tokens = sequence({"aesth_score": jnp.array([0.0, 4.0])}, 2)
    np.testing.assert_array_equal(tokens[0, 1], 0)
    assert float(abs(tokens[1, 1]).max()) > 0.1


def test_each_kind_of_conditioning_is_dropped_at_its_own_rate_and_both_texts_together() -> None:
    conditioning = Conditioning(8, 4, 8, 4, 8, ("aesth_score", "height"), 10)
    count = 20_000
    context = {
        "clip_emb": jnp.ones((count, 4, 8)),
        "t5_emb": jnp.ones((count, 4, 8)),
        "clip_image_emb": jnp.ones((count, 8)),
        "aesth_score": jnp.ones(count),
        "height": jnp.ones(count),
        "class": jnp.ones(count, jnp.int32),
        "mask": jnp.ones((count, 1)),
    }
    dropped = drop_conditioning(context, conditioning, KEYS[0])
    shares = {name: float((value.reshape(count, -1)[:, 0] == 1).mean()) for name, value in dropped.items()}
    wanted = {"clip_emb": 0.85, "clip_image_emb": 0.1, "aesth_score": 0.8, "class": 0.9, "mask": 1.0}
    assert {name: shares[name] for name in wanted} == pytest.approx(wanted, abs=0.015)
    np.testing.assert_array_equal(dropped["clip_emb"], dropped["t5_emb"])
    # One draw for text and image: half of the images come alone, and a tenth has neither condition.
    text, image = (
        np.asarray(dropped[name]).reshape(count, -1)[:, 0] == 1 for name in ("clip_emb", "clip_image_emb")
    )
    assert float((image & ~text).mean()) == pytest.approx(0.05, abs=0.01)
    assert float((~image & ~text).mean()) == pytest.approx(0.1, abs=0.01)
    assert bool((dropped["aesth_score"] != dropped["height"]).any())
    assert set(np.unique(dropped["class"])) == {1, 10}
    nothing = unconditional(context, conditioning)
    assert float(nothing["mask"].min()) == 1
    assert float(nothing["clip_emb"].max()) == 0


def test_noise_levels_and_places_are_encoded_as_waves() -> None:
    waves = sinusoids(jnp.array([0.0, 0.5]), 8)
    np.testing.assert_allclose(waves[0], [0, 0, 0, 0, 1, 1, 1, 1], atol=1e-6)
    assert float(waves[1, 0]) == pytest.approx(np.sin(500), abs=1e-4)
    places = position_map(8, 4)
    np.testing.assert_array_equal(places[0, 0, :, :4], places[0, 3, :, :4])  # columns
    np.testing.assert_array_equal(places[0, :, 0, 4:], places[0, :, 3, 4:])  # rows


def test_masks_are_rectangles_or_everything() -> None:
    masks = np.asarray(draw_masks(KEYS[1], 2000, 8))[..., 0]
    whole = masks.mean(axis=(1, 2)) == 1
    assert whole.mean() == pytest.approx(0.75, abs=0.05)
    for mask in masks[~whole][:200]:
        rows, columns = mask.any(axis=1), mask.any(axis=0)
        np.testing.assert_array_equal(mask, np.outer(rows, columns))


def test_a_fresh_network_predicts_zero_and_has_finite_gradients(tiny: Config) -> None:
    network = Network(tiny)
    params = network.init(2)
    context = context_for(["a small red circle"] * 2, tiny) | {
        "mask": np.ones((2, 8, 8, 1), np.float32),
        "known": np.zeros((2, 8, 8, 8), np.float32),
    }
    z = jax.random.normal(KEYS[3], (2, 8, 8, 8))

    def loss(params: object) -> tuple[jax.Array, jax.Array]:
        output = network.apply(params, z, jnp.zeros(2), context)
        return (output - 1).var() + output.mean(), output

    (_, output), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
    np.testing.assert_array_equal(output, 0)
    assert output.dtype == jnp.float32
    assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(gradient))


def test_a_bf16_network_keeps_norms_and_both_ends_in_fp32(tiny: Config) -> None:
    config = replace(tiny, model=replace(tiny.model, args=replace(tiny.model.args, param_dtype="bf16")))
    network = Network(config)
    copy = jax.eval_shape(network.compute_copy, network.shapes)
    assert copy["conv_in"]["kernel"].dtype == jnp.float32
    assert copy["middle1"]["norm1"]["scale"].dtype == jnp.float32
    assert copy["middle1"]["conv1"]["kernel"].dtype == jnp.bfloat16
    assert {leaf.dtype for leaf in jax.tree.leaves(network.shapes)} == {jnp.dtype("float32")}


def test_resampling_by_residual_blocks_and_classes_instead_of_text(tiny: Config) -> None:
    conditioning = Conditioning(0, 0, 0, 0, 0, (), 5)
    args = replace(tiny.model.args, resblock_resample=True, logsnr_input="inv_cos", dropout=0.1)
    config = replace(tiny, model=replace(tiny.model, args=args, conditioning=conditioning))
    network = Network(config)
    z = jax.ShapeDtypeStruct((2, 8, 8, 8), jnp.float32)
    reported = {"class": jax.ShapeDtypeStruct((2,), jnp.int32)}
    logsnr = jax.ShapeDtypeStruct((2,), jnp.float32)
    output = jax.eval_shape(network.apply, network.shapes, z, logsnr, reported, KEYS[0])
    assert output.shape == z.shape


def test_the_cifar10_network_has_the_published_number_of_parameters() -> None:
    """`sum(p.size)` of `UNet` with `config/cifar_base.py` of google-research/diffusion_distillation."""
    assert count_parameters(Network(CIFAR10).shapes) == 60_004_099


def _published_name(path: tuple[Any, ...], levels: int, blocks: int) -> str:
    """The name of a layer in google-research/diffusion_distillation's `unet.py`."""
    top, *inner = [str(getattr(part, "key", part)) for part in path]
    names = {"time0": "dense0", "time1": "dense1", "middle1": "mid.block_1", "middle2": "mid.block_2"}
    if top in ("downs", "ups"):
        number, side = int(inner.pop(0)), top[:-1]
        level, block = divmod(number, blocks + (1 if side == "down" else 2))
        level = level if side == "down" else levels - 1 - level
        if inner[0] not in ("resnet", "attention"):
            top = f"{side}_{level}.{side}sample"
        else:
            top = f"{side}_{level}.{'block' if inner.pop(0) == 'resnet' else 'attn'}_{block}"
    elif top == "middle_attention":
        top = "mid.attn_1"
    inner = [{"shortcut": "nin_shortcut", "to_out": "proj_out"}.get(name, name) for name in inner]
    return ".".join([names.get(top, top), *(name for name in inner if name != "self_attention")])


def _drawn(name: str, shape: tuple[int, ...]) -> np.ndarray:
    values = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape).astype(np.float32)
    if name.endswith("scale"):
        return 1 + np.float32(0.1) * values
    if name.endswith("bias"):
        return np.float32(0.1) * values
    return values * np.float32(np.prod(shape[:-1]) ** -0.5)


def test_the_cifar10_network_equals_the_published_code() -> None:
    """Expected values: `UNet` of google-research/diffusion_distillation (commit 30adf0e, run with flax 0.12)
    on parameters drawn by their names there."""
    config = CIFAR10.but(
        {
            "in_dimensions": (8, 8, 3),
            "dataset.args.image_size": 8,
            "model.args.ch": 64,
            "model.args.emb_ch": 96,
            "model.args.ch_mult": (1, 2),
            "model.args.num_res_blocks": 1,
            "model.args.attn_resolutions": (4,),
            "model.args.head_dim": 128,
        }
    )
    network = Network(config)

    def make(path: tuple[Any, ...], leaf: Any) -> np.ndarray:
        name = _published_name(path, levels=2, blocks=1)
        if "to_" not in name:
            return _drawn(name, leaf.shape)
        parts = ["q"] if "to_q" in name else ["k", "v"]
        names = [name.replace("to_kv", part).replace("to_q", part) for part in parts]
        shape = (*leaf.shape[:-1], leaf.shape[-1] // len(parts))
        return np.concatenate([_drawn(part, shape) for part in names], axis=-1)

    params = jax.tree_util.tree_map_with_path(make, network.shapes)
    z = np.random.default_rng(0).standard_normal((2, 8, 8, 3)).astype(np.float32)
    found = np.asarray(network.apply(params, z, np.array([-3.0, 2.5], np.float32), {}))
    expected = [
        [[-1.7375267, -0.4665245, -0.5645154], [0.4438251, 1.8673190, -0.7567788]],
        [[-0.0905243, -0.1149463, 0.0997048], [0.0611047, 0.0864746, -0.4357578]],
    ]
    np.testing.assert_allclose(found[:, 2, 3], expected[0], atol=2e-5)
    np.testing.assert_allclose(found[:, 7, 0], expected[1], atol=2e-5)
    assert float(found.mean()) == pytest.approx(-0.2085839, abs=1e-5)
    assert float(found.std()) == pytest.approx(0.5861460, abs=1e-5)


def test_attention_and_the_last_layer_of_a_fresh_cifar10_network_are_zero() -> None:
    config = CIFAR10.but({"model.args.ch": 32, "model.args.head_dim": 32, "model.args.num_res_blocks": 1})
    params = Network(config).init(0)
    assert not params["middle_attention"]["self_attention"]["to_out"]["kernel"].any()
    assert not params["conv_out"]["kernel"].any()


def test_plain_blocks_refuse_conditions_and_a_position_map() -> None:
    with pytest.raises(ConfigError, match=r"`plain` has no conditions \(class\)"):
        CIFAR10.but({"model.conditioning.num_classes": 10})
    with pytest.raises(ConfigError, match=r"set model\.args\.use_pos_enc to false"):
        CIFAR10.but({"model.args.use_pos_enc": True})
