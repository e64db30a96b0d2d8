"""Export to diffusers: a folder that `DiffusionPipeline.from_pretrained` loads, with the network in torch.

The folder holds the weights as safetensors, the network and the pipeline as two short Python files
(`torch_unet.py` and `torch_pipeline.py` of this package, which import nothing else of it), and diffusers' own
DDIM scheduler. The published network is not a configuration of diffusers' UNet2DConditionModel (its gates,
its noise-level input and its position map differ), hence a file of its own. Writing needs no torch.
"""

from __future__ import annotations

import json
import os
import posixpath
import struct
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import jax
import numpy as np

from tpulab_recipes.common.errors import ConfigError, StorageError
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.common.torch_process import call
from tpulab_recipes.ddpm.config import TEXT_ENCODERS, TEXT_STATES, Config, context_shapes
from tpulab_recipes.ddpm.data.encoders import TORCH_MODELS, text_encoder
from tpulab_recipes.ddpm.data.small_encoders import PatchPca

UNET_MODULE, PIPELINE_MODULE = "torch_unet", "torch_pipeline"


def torch_weights(params: Any) -> dict[str, np.ndarray]:
    """Float32 arrays by torch's names and in torch's layout, from the parameters of a network."""
    weights: dict[str, np.ndarray] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        *owners, kind = [str(getattr(part, "key", getattr(part, "idx", part))) for part in path]
        array = np.asarray(leaf, np.float32)
        if kind == "kernel":
            # Convolutions: [height, width, in, out] to [out, in, height, width]; matrices: [in, out] to
            # [out, in].
            array = array.transpose(3, 2, 0, 1) if array.ndim == 4 else array.T
        name = {"kernel": "weight", "scale": "weight", "embedding": "weight"}.get(kind, kind)
        # diffusers stores keys and values separately, and its last matrix in a list.
        parts = {"to_kv": ("to_k", "to_v"), "to_out": ("to_out.0",)}.get(owners[-1], (owners[-1],))
        for part, piece in zip(parts, np.split(array, len(parts)), strict=True):
            weights[".".join([*owners[:-1], part, name])] = np.ascontiguousarray(piece)
    return weights


def unet_config(config: Config) -> dict[str, Any]:
    """What `torch_unet.UNet` is made from."""
    return {
        "_class_name": "UNet",
        "sample_size": config.in_dimensions[0],
        "in_channels": config.in_dimensions[2],
        "args": asdict(config.model.args),
        "conditioning": asdict(config.model.conditioning),
    }


def scheduler_config(config: Config) -> dict[str, Any]:
    """Diffusers' DDIM scheduler with our noise levels. A cosine schedule becomes a table of betas of 1,000
    steps."""
    schedule = config.model.eval_alpha_schedule
    kind = {"v": "v_prediction", "eps": "epsilon", "x": "sample"}[config.model.mean_type]
    common: dict[str, Any] = {
        "_class_name": "DDIMScheduler",
        "clip_sample": config.model.eval_clip_denoised,
        "prediction_type": kind,
        "set_alpha_to_one": True,
        "steps_offset": 0,
        "timestep_spacing": "trailing",
    }
    if schedule.name == "linear":
        return common | {
            "beta_schedule": "linear",
            "beta_start": schedule.beta_start,
            "beta_end": schedule.beta_end,
            "num_train_timesteps": schedule.steps,
        }
    from tpulab_recipes.ddpm.diffusion.diffusion import CosineSchedule

    # Timestep i of n is the time (i + 1) / n, so that trailing timesteps are the times our sampler visits.
    count = 1024
    logsnr = CosineSchedule(schedule.logsnr_min, schedule.logsnr_max).logsnr(
        np.arange(1, count + 1) / count, np
    )
    alphas = 1 / (1 + np.exp(-logsnr))
    betas = 1 - alphas / np.concatenate([[1.0], alphas[:-1]])
    return common | {"trained_betas": betas.tolist(), "num_train_timesteps": count}


def export_to_diffusers(
    params: Any, config: Config, folder: str | Path, *, with_encoders: bool = False
) -> Path:
    """Writes the folder, on this machine, and returns its path. Load it with
    `DiffusionPipeline.from_pretrained(folder, custom_pipeline=f"{folder}/torch_pipeline.py",
    trust_remote_code=True)`."""
    if "://" in str(folder):
        raise StorageError(f"{folder} is no folder of this machine; write_export writes to buckets too.")
    write_export(params, config, str(folder), with_encoders=with_encoders)
    return Path(folder)


def write_export(params: Any, config: Config, url: str, *, with_encoders: bool = False) -> None:
    """Writes the export to a folder, local or in a bucket. diffusers loads local folders only: copy it first.

    `with_encoders` puts the published text encoders and VAE into the folder, which must be a local one, so
    that it makes images from prompts by itself.
    """
    if with_encoders and "://" in url:
        raise StorageError(
            f"{url}: encoders are exported to local folders only; copy the folder to the bucket afterwards."
        )
    if config.model.conditioning.num_classes and {*TEXT_STATES} & {
        *context_shapes(config.model.conditioning)
    }:
        raise ConfigError("model.conditioning", "an export knows either classes or text.")
    folder = Folder(url).make()
    unet, scheduler = (Folder(posixpath.join(url, name)).make() for name in ("unet", "scheduler"))
    here = Path(__file__).parent
    unet.put(f"{UNET_MODULE}.py", (here / f"{UNET_MODULE}.py").read_bytes())
    folder.put(f"{PIPELINE_MODULE}.py", (here / f"{PIPELINE_MODULE}.py").read_bytes())
    _put_json(unet, "config.json", unet_config(config))
    with unet.write("diffusion_pytorch_model.safetensors") as file:
        write_safetensors(file, torch_weights(params))
    _put_json(scheduler, "scheduler_config.json", scheduler_config(config))
    about: dict[str, Any] = {
        "_class_name": [PIPELINE_MODULE, "TpulabPipeline"],
        "unet": [UNET_MODULE, "UNet"],
        "scheduler": ["diffusers", "DDIMScheduler"],
        "encoders": {name: getattr(config.model, f"{name}_model_id") for name in TEXT_ENCODERS}
        | {"vae": config.model.vae_id},
        "image_size": config.dataset.args.image_size,
    }
    if config.model.vae_id == "small" and not config.in_pixels:
        pca = PatchPca.shipped()
        about["patch_pca"] = {"mean": pca.mean.tolist(), "basis": pca.basis.tolist(), "scale": pca.scale}
    if with_encoders:
        about |= _write_encoders(config, url)
    _put_json(folder, "model_index.json", about)


def _write_encoders(config: Config, folder: str) -> dict[str, list[str]]:
    """Saves the published encoders that the network was trained with. Returns their entries in the index."""
    shapes = context_shapes(config.model.conditioning)
    named = {key.removesuffix("_emb"): text_encoder(key, config) for key in TEXT_STATES if key in shapes}
    named["vae"] = "small" if config.in_pixels else config.model.vae_id
    wanted = {which: name for which, name in named.items() if name != "small"}
    if not wanted:
        return {}
    entries: dict[str, list[str]] = call(
        f"{TORCH_MODELS}:save_encoders", folder=os.path.abspath(folder), names=wanted
    )
    return entries


def write_safetensors(file: IO[bytes], arrays: dict[str, np.ndarray]) -> None:
    """The safetensors format: length of the header, header in JSON, then the bytes of all arrays."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name, array in arrays.items():
        header[name] = {
            "dtype": "F32",
            "shape": list(array.shape),
            "data_offsets": [place, place + array.nbytes],
        }
        place += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for array in arrays.values():
        file.write(array.astype("<f4").tobytes())


def _put_json(folder: Folder, name: str, value: Any) -> None:
    folder.put(name, json.dumps(value, indent=2) + "\n")
