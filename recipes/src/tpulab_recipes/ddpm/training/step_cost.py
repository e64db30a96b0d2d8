"""What a training step costs, counted before anything is allocated: operations, and memory of each chip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from tpulab_recipes.ddpm.config import Config, context_shapes
from tpulab_recipes.ddpm.model.network import Network
from tpulab_recipes.ddpm.training.train_step import diffusion_loss, state_shapes
from tpulab_recipes.runtime import memory_plan
from tpulab_recipes.runtime.memory_plan import MemoryPlan, plan_jax_memory, sliced_bytes


def batch_shapes(config: Config, batch: int) -> dict[str, jax.ShapeDtypeStruct]:
    """A batch as training sees it, without data."""
    shapes: dict[str, Any] = {"image": jax.ShapeDtypeStruct((batch, *config.in_dimensions), jnp.float32)}
    for name, shape in context_shapes(config.model.conditioning).items():
        kind = jnp.int32 if name == "class" else jnp.float32 if not shape else jnp.bfloat16
        shapes[name] = jax.ShapeDtypeStruct((batch, *shape), kind)
    return shapes


def flops_per_image(config: Config) -> float | None:
    """Operations that a training step needs for an image: the forward pass, and twice that for the backward
    pass. What remat computes again does not count, zeros of the padding do. None without the package
    `tpulab`, which counts them."""
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
    """What training at this rate comes to on these devices: `tflop_per_second`, and `mfu_percent`, its share
    of their peak in bf16. Without what is unknown: operations without the package `tpulab`, the peak of
    devices that are no TPUs."""
    flops = flops_per_image(config)
    if flops is None:
        return {}
    from tpulab.figures.pace import peak_flops

    per_second = flops * images_per_second
    peaks = [peak_flops(device.device_kind) for device in devices]
    if None in peaks:
        return {"tflop_per_second": per_second / 1e12}
    share = per_second / sum(peak or 0.0 for peak in peaks)
    return {"tflop_per_second": per_second / 1e12, "mfu_percent": 100 * share}


def plan_step_memory(config: Config, chips: int) -> MemoryPlan:
    """Bytes on each of `chips` chips of one host. `parameters` has masters, average, and the gathered copy
    that the network computes with."""
    network = Network(config)
    state, copy = state_shapes(network), _compute_shapes(network)
    rows = batch_shapes(config, max(1, config.train.batch_size // chips))
    loss = diffusion_loss(network)
    whole = plan_jax_memory(lambda params, args: loss(params, *args), copy, (), (rows, _key()))
    masters = sliced_bytes((state.params, state.ema), chips)
    return replace(
        whole, parameters=masters + whole.parameters, optimizer=sliced_bytes(state.opt_state, chips)
    )


def refuse_too_large(config: Config, devices: Sequence[Any]) -> None:
    """`memory_plan.refuse_too_large` of a step on the devices of one host."""
    memory_plan.refuse_too_large(
        devices[0].device_kind,
        len(devices),
        lambda: plan_step_memory(config, len(devices)),
        f"A step with {config.train.batch_size} images",
        "Use a smaller train.batch_size, more chips, or model.args.remat_levels="
        f"{len(config.model.args.ch_mult) - 1}.",
    )


def _key() -> Any:
    return jax.eval_shape(lambda: jax.random.key(0))


def _compute_shapes(network: Network) -> Any:
    return jax.eval_shape(network.compute_copy, network.shapes)
