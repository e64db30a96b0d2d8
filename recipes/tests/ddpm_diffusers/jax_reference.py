"""Run by a Python with JAX: writes exported networks, and what they say, for torch and diffusers to be
compared with.

`python jax_reference.py FOLDER`. Each network is a folder of its own with `reference.npz` in it; `steps.npz`
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
from tpulab_recipes.ddpm.config import AlphaSchedule, Conditioning, Config
from tpulab_recipes.ddpm.diffusion import interpret
from tpulab_recipes.ddpm.exporter import export_to_diffusers
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.presets import LAION256, SMALL
from tpulab_recipes.ddpm.prompts import context_for
from tpulab_recipes.ddpm.sampler import Sampler
from tpulab_recipes.ddpm.sampling import ancestral_step, ddim_step
from tpulab_recipes.ddpm.schedules import linear_alphas_bar, schedule_from

PROMPTS = ["a large red circle", "a small blue cross", ""]
GUIDANCE = 2.5
#: Numbers that divide the timesteps of the schedule: diffusers steps by whole strides.
STEPS = {"text": 16, "classes": 20}


def networks() -> dict[str, Config]:
    """Between them they have every part: both resampling ways, both noise-level inputs, gates, classes, the
    map."""
    model = SMALL.model
    args = replace(model.args, ch=16, emb_ch=24, seq_width=24, head_dim=8, norm_groups=4)
    text = replace(SMALL, model=replace(model, args=args))
    other = replace(
        args,
        resblock_resample=True,
        logsnr_input="inv_cos",
        use_glu=False,
        attn_resolutions=(8, 4),
        use_pos_enc=False,
    )
    classes = replace(
        SMALL,
        model=replace(
            model,
            args=other,
            conditioning=Conditioning(0, 0, 0, 0, 0, (), 5, keep_class=0.9),
            mean_type="v",
            train_alpha_schedule=AlphaSchedule(),
            eval_alpha_schedule=AlphaSchedule(),
        ),
    )
    return {"text": text, "classes": classes}


def published() -> Config:
    """Told by encoders that have to be downloaded, so only its export is made."""
    model = SMALL.model
    ids = {name: getattr(LAION256.model, name) for name in ("clip_model_id", "t5_model_id", "vae_id")}
    return replace(
        SMALL,
        in_dimensions=(8, 8, 4),
        model=replace(
            model,
            args=replace(model.args, ch=16, emb_ch=24, seq_width=24, head_dim=8, norm_groups=4, out_ch=4),
            conditioning=Conditioning(24, 4, 16, 3, 8, ("aesth_score", "height", "width")),
            **ids,
        ),
    )


def write_network(name: str, config: Config, folder: Path) -> None:
    network = Network(config)
    rng = np.random.default_rng(11)
    # Random everywhere: what starts at zero or one would hide mistakes.
    params = jax.tree.map(
        lambda leaf: (leaf + 0.1 * rng.standard_normal(leaf.shape)).astype(np.float32), network.init(3)
    )
    export_to_diffusers(params, config, folder / name)
    if name == "text":
        context = context_for(PROMPTS, config)
        context["aesth_score"][1] = 0.0
    else:
        context = {"class": np.array([0, 4, 5], np.int32)}
    z = rng.standard_normal((3, *config.in_dimensions)).astype(np.float32)
    logsnr = np.array([-5.0, 0.3, 6.0], np.float32)
    asked = dict(context)
    if config.model.conditioning.inpainting:
        asked["mask"] = (rng.random((3, 8, 8, 1)) < 0.5).astype(np.float32)
        asked["known"] = rng.standard_normal(z.shape).astype(np.float32)
    said = jax.jit(network.apply)(params, z, logsnr, asked)
    sampler = Sampler(network, 3)
    made = sampler(params, context, steps=STEPS[name], guidance=GUIDANCE, noise=z)
    arrays = {f"context_{key}": value for key, value in asked.items()}
    np.savez(folder / name / "reference.npz", z=z, logsnr=logsnr, said=said, made=made, **arrays)


def write_steps(folder: Path) -> None:
    """Single steps of the linear schedule in double precision, from timestep 599 to 399."""
    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(5)
    z, said, noise = rng.standard_normal((3, 2, 4, 4, 3))
    table = schedule_from(AlphaSchedule()).levels(1000)[::-1]
    # levels() ends with infinity, so timestep t stands at t + 1.
    start, end = (jnp.full(2, table[t + 1]) for t in (599, 399))
    arrays = {"z": z, "said": said, "noise": noise, "alphas": linear_alphas_bar(AlphaSchedule())}
    for kind in ("v", "eps", "x"):
        prediction = interpret(jnp.asarray(said), jnp.asarray(z), start, kind)
        arrays[f"x_{kind}"] = prediction.x
        arrays[f"ddim_{kind}"] = ddim_step(jnp.asarray(z), prediction, end)
        for size in ("small", "large"):
            arrays[f"ancestral_{size}_{kind}"] = ancestral_step(
                jnp.asarray(z), prediction, start, end, jnp.asarray(noise), f"fixed_{size}"
            )
    np.savez(folder / "steps.npz", **arrays)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    for network_name, network_config in networks().items():
        write_network(network_name, network_config, target)
    export_to_diffusers(Network(published()).init(3), published(), target / "published")
    write_steps(target)
