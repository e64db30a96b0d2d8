"""The cost of a training step, counted before anything is allocated: operations, and memory of each chip."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from tpulab_recipes.ddpm.config import Config, context_shapes
from tpulab_recipes.ddpm.model.unet import Network
from tpulab_recipes.ddpm.training.train_step import (
    compile_step,
    default_hyperparameters,
    diffusion_loss,
    state_shapes,
)
from tpulab_recipes.runtime import too_large
from tpulab_recipes.runtime.jax_mesh import batch_sharding, placed_shapes


def batch_shapes(config: Config, batch: int) -> dict[str, jax.ShapeDtypeStruct]:
    """A batch as training sees it, without data."""
    shapes: dict[str, Any] = {"image": jax.ShapeDtypeStruct((batch, *config.in_dimensions), jnp.float32)}
    for name, shape in context_shapes(config.model.conditioning).items():
        kind = jnp.int32 if name == "class" else jnp.float32 if not shape else jnp.bfloat16
        shapes[name] = jax.ShapeDtypeStruct((batch, *shape), kind)
    return shapes


def flops_per_image(config: Config) -> float | None:
    """Operations that a training step needs for an image: the forward pass, and twice that for the backward
    pass. Recomputation (remat) does not count, the padding's zeros do. None without the package `tpulab`,
    which counts them."""
    args = replace(config.model.args, remat_levels=-1)
    return _flops(Config(in_dimensions=config.in_dimensions, model=replace(config.model, args=args)))


@lru_cache
def _flops(config: Config) -> float | None:
    try:
        from tpulab.compile.flop_count import count_flops
    except ImportError:
        return None
    network = Network(config)
    loss = jax.make_jaxpr(diffusion_loss(network))
    return 3 * float(count_flops(loss(_compute_shapes(network), batch_shapes(config, 1), _key())).flops)


def speed(config: Config, devices: Iterable[Any], images_per_second: float) -> dict[str, float]:
    """Training at this rate on these devices: `tflop_per_second`, and `mfu_percent`, the share of their bf16
    peak. Unknown values are left out: operations without the package `tpulab`, the peak of devices that are
    not TPUs."""
    flops = flops_per_image(config)
    if flops is None:
        return {}
    from tpulab.figures.throughput import peak_flops

    per_second = flops * images_per_second
    peaks = [peak_flops(device.device_kind) for device in devices]
    if None in peaks:
        return {"tflop_per_second": per_second / 1e12}
    share = per_second / sum(peak or 0.0 for peak in peaks)
    return {"tflop_per_second": per_second / 1e12, "mfu_percent": 100 * share}


def lower_ahead(network: Network, mesh: Mesh, step: Any = None) -> Any:
    """The training step (`compile_step`), lowered from shapes for devices that need not be here."""
    state = placed_shapes(state_shapes(network), mesh)
    rows = batch_shapes(network.config, network.config.train.batch_size)
    batch = placed_shapes(rows, batch_sharding(mesh))
    step = step or compile_step(network, mesh)
    # As host values, as in training: placed on a device, they would compile again.
    traced = step.trace(state, batch, default_hyperparameters(network.config))
    platform = mesh.devices.flat[0].platform
    # With an explicit platform, a later call would not find the program.
    named = {} if platform == jax.default_backend() else {"lowering_platforms": (platform,)}
    return traced.lower(**named)


def compile_ahead(network: Network, mesh: Mesh, step: Any = None) -> Any:
    """Compiled: a call of `step` with arrays of these shapes does not compile again."""
    return lower_ahead(network, mesh, step).compile()


def refuse_too_large(network: Network, mesh: Mesh, step: Any = None) -> None:
    """Compiles the training step for the chips of the mesh before anything is allocated on them. Raises
    `DeviceRuntimeError` (`too_large`) with the compiler's figures. Does nothing on CPUs."""
    if mesh.devices.flat[0].platform == "cpu":
        return
    with too_large.refuse_too_large(
        f"A step with {network.config.train.batch_size} images on {mesh.size} devices",
        "Use a smaller train.batch_size, more chips, or model.args.remat_levels="
        f"{len(network.config.model.args.ch_mult) - 1}.",
    ):
        compile_ahead(network, mesh, step)


def _key() -> Any:
    return jax.eval_shape(lambda: jax.random.key(0))


def _compute_shapes(network: Network) -> Any:
    return jax.eval_shape(network.compute_copy, network.shapes)
