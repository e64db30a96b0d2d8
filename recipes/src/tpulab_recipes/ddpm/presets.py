"""The configurations with published sizes, a small one that learns within a minute on two cores, and files
that change one of them."""

from __future__ import annotations

import json
import runpy
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.ddpm.config import (
    AlphaSchedule,
    Conditioning,
    Config,
    Dataset,
    DatasetArgs,
    Distill,
    Model,
    Train,
    UNetArgs,
    config_from,
    nearest,
)

#: Text to image at 256 pixels: 136.9 M parameters. The origin states 64 x 64 latents for it, twice what its
#: VAE makes of 256 pixels.
LAION256 = Config()

#: Text to image at 512 pixels: 952.7 M parameters, with attention at the three outer levels and in the
#: middle. The origin also lists attention at 8 x 8, which makes 1,114.3 M of it (add 8 to
#: `attn_resolutions`).
LAION512_LARGE = Config(
    dataset=Dataset(args=DatasetArgs(image_size=512)),
    in_dimensions=(64, 64, 4),
    model=Model(
        args=UNetArgs(
            ch=256,
            emb_ch=1024,
            ch_mult=(2, 3, 4, 4),
            attn_resolutions=(64, 32, 16),
            # The only one that a v5e-8 does not hold without.
            remat_levels=2,
        )
    ),
    train=Train(batch_size=128, weight_decay=0.02),
)

_NOTHING = Conditioning(
    clip_width=0, clip_length=0, t5_width=0, t5_length=0, clip_image_width=0, scalars=(), num_classes=0
)
_COSINE = AlphaSchedule(name="cosine")

#: Unconditional, in pixels, as published for CIFAR-10 by the base repository.
CIFAR10 = Config(
    dataset=Dataset(args=DatasetArgs(image_size=32)),
    in_dimensions=(32, 32, 3),
    model=Model(
        args=UNetArgs(
            ch=256,
            emb_ch=1024,
            ch_mult=(1, 1, 1),
            num_res_blocks=3,
            attn_resolutions=(8, 16),
            head_dim=256,
            dropout=0.2,
            logsnr_input="inv_cos",
            resblock_resample=True,
            out_ch=3,
            use_pos_enc=False,
        ),
        conditioning=_NOTHING,
        mean_type="eps",
        mean_loss_weight_type="snr",
        train_num_steps=0,
        eval_sampling_num_steps=1024,
        train_alpha_schedule=_COSINE,
        eval_alpha_schedule=_COSINE,
        tmin=0,
        eval_clip_denoised=True,
        vae_id="small",
    ),
    train=Train(
        batch_size=128,
        adam_beta2=0.999,
        max_learning_rate=2e-4,
        min_learning_rate=2e-4,
        learning_rate_warmup_steps=1000,
        weight_decay=0.001,
    ),
)

#: Captioned shapes of 16 x 16 pixels, as 8 x 8 latents. Everything that the large ones have, in a small size.
SMALL = Config(
    # The evaluator draws shapes of its own: nothing need be held out.
    dataset=Dataset(
        name="shapes",
        args=DatasetArgs(image_size=16, number_encodings_per_shard=512),
        held_out_share=0.0,
    ),
    in_dimensions=(8, 8, 8),
    model=Model(
        args=UNetArgs(
            ch=32,
            emb_ch=96,
            ch_mult=(1, 2),
            num_res_blocks=1,
            attn_resolutions=(4,),
            head_dim=32,
            logsnr_scale_range=(-10.0, 10.0),
            out_ch=8,
            seq_width=64,
            param_dtype="fp32",
            norm_groups=8,
        ),
        conditioning=Conditioning(
            clip_width=32,
            clip_length=8,
            t5_width=0,
            t5_length=0,
            clip_image_width=0,
            scalars=("aesth_score",),
            inpainting=True,
            keep_text=0.9,
            keep_scalars=0.9,
        ),
        # Flat shapes on a flat ground: saying x itself gives clean images long before v does.
        mean_type="x",
        mean_loss_weight_type="constant",
        train_num_steps=0,
        eval_sampling_num_steps=32,
        train_alpha_schedule=AlphaSchedule(name="cosine", logsnr_min=-10.0, logsnr_max=10.0),
        eval_alpha_schedule=AlphaSchedule(name="cosine", logsnr_min=-10.0, logsnr_max=10.0),
        tmin=0,
        t5_model_id="small",
        clip_model_id="small",
        vae_id="small",
    ),
    train=Train(
        batch_size=32,
        max_learning_rate=2e-3,
        min_learning_rate=2e-4,
        learning_rate_warmup_steps=30,
        weight_decay=0.001,
        ema_decay=0.98,
        log_loss_every_steps=20,
        snapshot_freq=0,
        checkpoint_dirs=("{}/checkpoints_recent",),
        num_checkpoints=(3,),
        save_freq=(200,),
        iterations=450,
    ),
    # A student begins as its teacher, so near the aim that larger steps only lead away from it.
    distill=Distill(steps_per_halving=60, learning_rate=2e-4),
)

PRESETS: dict[str, Config] = {
    "small": SMALL,
    "laion256": LAION256,
    "laion512_large": LAION512_LARGE,
    "cifar10": CIFAR10,
    #: Class-conditional on ImageNet at 256 pixels.
    "imagenet256": replace(
        LAION256,
        model=replace(LAION256.model, conditioning=replace(_NOTHING, num_classes=1000)),
    ),
}


def load_config(source: str | Path) -> Config:
    """A preset by its name, or what a `.py` file with `get_config()`, a `.toml` or a `.json` says. A key
    `preset` in a file names what it changes."""
    if str(source) in PRESETS:
        return PRESETS[str(source)]
    values = dict(_read(Path(source)))
    preset = values.pop("preset", None)
    if preset is not None and preset not in PRESETS:
        raise ConfigError("preset", f"there is no preset {preset!r}; known: {', '.join(PRESETS)}.")
    return config_from(values, PRESETS[preset] if preset is not None else None)


def _read(path: Path) -> Mapping[str, Any]:
    if not path.exists():
        known = f"There is no file {path}, and no preset of that name ({', '.join(PRESETS)})."
        raise ConfigError("", known + nearest(str(path), PRESETS))
    try:
        if path.suffix == ".toml":
            return tomllib.loads(path.read_text())
        if path.suffix == ".json":
            values: Mapping[str, Any] = json.loads(path.read_text())
            return values
        if path.suffix == ".py":
            found = runpy.run_path(str(path))["get_config"]()
            return dict(found.to_dict() if hasattr(found, "to_dict") else found)
    except KeyError:
        raise ConfigError("", f"{path} has no function get_config().") from None
    except ValueError as error:
        raise ConfigError("", f"{path} cannot be read: {error}") from error
    raise ConfigError("", f"{path} must end in .py, .toml or .json, or be the name of a preset.")
