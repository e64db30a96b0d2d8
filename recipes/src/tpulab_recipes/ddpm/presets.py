"""The configurations with published sizes, a small one that learns within a minute on two cores, and files
that change one of them."""

from __future__ import annotations

from pathlib import Path

from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.common.settings import nearest, read_settings
from tpulab_recipes.ddpm.config import Config, config_from

#: Text to image at 256 pixels: 136.9 M parameters. The origin states 64 x 64 latents for it, twice what its
#: VAE makes of 256 pixels.
LAION256 = Config()

#: Text to image at 512 pixels: 952.7 M parameters, with attention at the three outer levels and in the
#: middle. The origin also lists attention at 8 x 8, which makes 1,114.3 M of it (add 8 to
#: `attn_resolutions`).
LAION512_LARGE = LAION256.but(
    {
        "dataset.args.image_size": 512,
        "in_dimensions": (64, 64, 4),
        "model.args.ch": 256,
        "model.args.emb_ch": 1024,
        "model.args.ch_mult": (2, 3, 4, 4),
        "model.args.attn_resolutions": (64, 32, 16),
        # This is the only preset that does not fit a v5e-8 without recomputation.
        "model.args.remat_levels": 2,
        "train.batch_size": 128,
        "train.weight_decay": 0.02,
    }
)

_NO_CONDITIONING = {
    "model.conditioning.clip_width": 0,
    "model.conditioning.clip_length": 0,
    "model.conditioning.t5_width": 0,
    "model.conditioning.t5_length": 0,
    "model.conditioning.clip_image_width": 0,
    "model.conditioning.scalars": (),
}
_CONTINUOUS_TIME = {
    "model.train_num_steps": 0,
    "model.tmin": 0,
    "model.train_alpha_schedule.name": "cosine",
    "model.eval_alpha_schedule.name": "cosine",
}

#: Unconditional, in pixels: the network and training of `cifar_base` in
#: google-research/diffusion_distillation, 60.0 M parameters.
CIFAR10 = LAION256.but(
    _NO_CONDITIONING
    | _CONTINUOUS_TIME
    | {
        "dataset.args.image_size": 32,
        # `import cifar10` writes png.
        "dataset.args.image_format": "",
        "dataset.args.random_flip": True,
        "in_dimensions": (32, 32, 3),
        "model.args.ch": 256,
        "model.args.emb_ch": 1024,
        "model.args.ch_mult": (1, 1, 1),
        "model.args.attn_resolutions": (8, 16),
        "model.args.head_dim": 256,
        "model.args.dropout": 0.2,
        "model.args.logsnr_input": "inv_cos",
        "model.args.resblock_resample": True,
        "model.args.out_ch": 3,
        "model.args.use_pos_enc": False,
        "model.args.blocks": "plain",
        "model.args.param_dtype": "fp32",
        "model.mean_type": "x",
        "model.mean_loss_weight_type": "snr_trunc",
        "model.eval_sampling_num_steps": 1024,
        "model.eval_clip_denoised": True,
        "model.vae_id": "small",
        "train.batch_size": 128,
        "train.adam_beta2": 0.999,
        "train.max_learning_rate": 2e-4,
        "train.min_learning_rate": 2e-4,
        "train.learning_rate_warmup_steps": 1000,
        "train.weight_decay": 0.001,
    }
)

#: Captioned shapes of 16 x 16 pixels, as 8 x 8 latents. Every feature of the large presets, in a small size.
SMALL = LAION256.but(
    _NO_CONDITIONING
    | _CONTINUOUS_TIME
    | {
        "dataset.name": "shapes",
        "dataset.args.image_size": 16,
        # `shapes` writes png, `download` jpg.
        "dataset.args.image_format": "",
        "dataset.args.number_encodings_per_shard": 512,
        # The evaluator draws its own shapes, so nothing is held out.
        "dataset.held_out_share": 0.0,
        "in_dimensions": (8, 8, 8),
        "model.args.ch": 32,
        "model.args.emb_ch": 96,
        "model.args.ch_mult": (1, 2),
        "model.args.num_res_blocks": 1,
        "model.args.attn_resolutions": (4,),
        "model.args.head_dim": 32,
        "model.args.logsnr_scale_range": (-10.0, 10.0),
        "model.args.out_ch": 8,
        "model.args.seq_width": 64,
        "model.args.param_dtype": "fp32",
        "model.args.norm_groups": 8,
        "model.conditioning.clip_width": 32,
        "model.conditioning.clip_length": 8,
        "model.conditioning.scalars": ("aesth_score",),
        "model.conditioning.inpainting": True,
        "model.conditioning.keep_text": 0.9,
        "model.conditioning.keep_scalars": 0.9,
        # Flat shapes on a flat ground: predicting x itself gives clean images long before v does.
        "model.mean_type": "x",
        "model.mean_loss_weight_type": "constant",
        "model.eval_sampling_num_steps": 32,
        "model.train_alpha_schedule": {"logsnr_min": -10.0, "logsnr_max": 10.0},
        "model.eval_alpha_schedule": {"logsnr_min": -10.0, "logsnr_max": 10.0},
        "model.t5_model_id": "small",
        "model.clip_model_id": "small",
        "model.vae_id": "small",
        "train.batch_size": 32,
        "train.max_learning_rate": 2e-3,
        "train.min_learning_rate": 2e-4,
        "train.learning_rate_warmup_steps": 30,
        "train.weight_decay": 0.001,
        "train.ema_decay": 0.98,
        "train.log_loss_every_steps": 20,
        "train.snapshot_freq": 0,
        "train.checkpoint_dirs": ("{}/checkpoints_recent",),
        "train.num_checkpoints": (3,),
        "train.save_freq": (200,),
        "train.iterations": 450,
        # A student begins as its teacher, so close to the optimum that larger steps only lead away from it.
        "distill.steps_per_halving": 60,
        "distill.learning_rate": 2e-4,
    }
)

PRESETS: dict[str, Config] = {
    "small": SMALL,
    "laion256": LAION256,
    "laion512_large": LAION512_LARGE,
    "cifar10": CIFAR10,
    #: Class-conditional on ImageNet at 256 pixels.
    "imagenet256": LAION256.but(_NO_CONDITIONING | {"model.conditioning.num_classes": 1000}),
}


def load_config(source: str | Path) -> Config:
    """A preset by its name, or the configuration in a `.py` file with `get_config()`, a `.toml` or a `.json`
    file. The key `preset` of a file names the preset that it changes."""
    if str(source) in PRESETS:
        return PRESETS[str(source)]
    if not Path(source).exists():
        known = f"There is no file {source}, and no preset of that name ({', '.join(PRESETS)})."
        raise ConfigError("", known + nearest(str(source), PRESETS))
    values = read_settings(Path(source))
    preset = values.pop("preset", None)
    if preset is not None and preset not in PRESETS:
        raise ConfigError("preset", f"there is no preset {preset!r}; known: {', '.join(PRESETS)}.")
    return config_from(values, PRESETS[preset] if preset is not None else None)
