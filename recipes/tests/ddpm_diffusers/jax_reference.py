"""Run by a Python with JAX: writes exported networks and their predictions, to compare torch and diffusers
with.

`python jax_reference.py FOLDER`. Each network is a separate folder with `reference.npz` in it; `steps.npz`
has single steps of our samplers.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from tpulab_recipes.ddpm.config import AlphaSchedule, Config, context_shapes
from tpulab_recipes.ddpm.diffusion.diffusion import interpret, linear_alphas_bar, schedule_from
from tpulab_recipes.ddpm.diffusion.sampling import ancestral_step, ddim_step
from tpulab_recipes.ddpm.export.exporter import export_to_diffusers
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.presets import PRESETS
from tpulab_recipes.ddpm.prompts import context_for
from tpulab_recipes.ddpm.sampler import Sampler

PROMPTS = ["a large red circle", "a small blue cross", ""]
GUIDANCE = 2.5
#: Numbers that divide the timesteps of the schedule: diffusers steps by whole strides.
STEPS = {"cosine": 16, "linear": 20}


def shrunk(name: str) -> Config:
    """A preset with few channels and levels; all that an export has to carry is as published."""
    config = PRESETS[name]
    model, reported = config.model, config.model.conditioning
    args = replace(
        model.args,
        ch=16,
        emb_ch=24,
        ch_mult=(1, 2),
        num_res_blocks=1,
        seq_width=24,
        head_dim=8,
        norm_groups=4,
        attn_resolutions=(4,),
        dropout=0.0,
        param_dtype="fp32",
    )
    if name == "imagenet256":
        # Settings that no preset has.
        args = replace(args, use_glu=False, attn_resolutions=(8, 4))
    if name != "small":
        reported = replace(
            reported,
            clip_width=min(reported.clip_width, 24),
            clip_length=min(reported.clip_length, 4),
            t5_width=min(reported.t5_width, 16),
            t5_length=min(reported.t5_length, 3),
            clip_image_width=min(reported.clip_image_width, 8),
            num_classes=min(reported.num_classes, 5),
        )
    if name == "laion512_large":
        # All encoders of text at a time.
        reported = replace(reported, bert_width=8, bert_length=2)
    dimensions = (8, 8, config.in_dimensions[2])
    return replace(config, in_dimensions=dimensions, model=replace(model, args=args, conditioning=reported))


def write_network(name: str, folder: Path) -> None:
    config = shrunk(name)
    network = Network(config)
    rng = np.random.default_rng(11)
    # Random everywhere: what starts at zero or one would hide mistakes.
    params = jax.tree.map(
        lambda leaf: (leaf + 0.1 * rng.standard_normal(leaf.shape)).astype(np.float32), network.init(3)
    )
    export_to_diffusers(params, config, folder / name)
    if name == "small":
        context = context_for(PROMPTS, config)
        context["aesth_score"][1] = 0.0
    else:
        context = {
            key: rng.uniform(2, 9, (3, *shape)).astype(np.float32)
            for key, shape in context_shapes(config.model.conditioning).items()
        }
        if "class" in context:
            context["class"] = np.array([0, 4, 5], np.int32)
    z = rng.standard_normal((3, *config.in_dimensions)).astype(np.float32)
    logsnr = np.array([-5.0, 0.3, 6.0], np.float32)
    requested = dict(context)
    if config.model.conditioning.inpainting:
        requested["mask"] = (rng.random((3, 8, 8, 1)) < 0.5).astype(np.float32)
        requested["known"] = rng.standard_normal(z.shape).astype(np.float32)
    output = jax.jit(network.apply)(params, z, logsnr, requested)
    sampler = Sampler(network, 3)
    steps = STEPS[config.model.eval_alpha_schedule.name]
    made = sampler(params, context, steps=steps, guidance=GUIDANCE, noise=z)
    arrays = {f"context_{key}": value for key, value in requested.items()}
    np.savez(
        folder / name / "reference.npz", z=z, logsnr=logsnr, output=output, made=made, steps=steps, **arrays
    )


def write_steps(folder: Path) -> None:
    """Single steps of the linear schedule in double precision, from timestep 599 to 399."""
    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(5)
    z, output, noise = rng.standard_normal((3, 2, 4, 4, 3))
    table = schedule_from(AlphaSchedule()).levels(1000)[::-1]
    # levels() ends with infinity, so timestep t stands at t + 1.
    start, end = (jnp.full(2, table[t + 1]) for t in (599, 399))
    arrays = {"z": z, "output": output, "noise": noise, "alphas": linear_alphas_bar(AlphaSchedule())}
    for kind in ("v", "eps", "x"):
        prediction = interpret(jnp.asarray(output), jnp.asarray(z), start, kind)
        arrays[f"x_{kind}"] = prediction.x
        arrays[f"ddim_{kind}"] = ddim_step(jnp.asarray(z), prediction, end)
        for size in ("small", "large"):
            arrays[f"ancestral_{size}_{kind}"] = ancestral_step(
                jnp.asarray(z), prediction, start, end, jnp.asarray(noise), f"fixed_{size}"
            )
    np.savez(folder / "steps.npz", **arrays)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    for preset in PRESETS:
        write_network(preset, target)
    write_steps(target)
