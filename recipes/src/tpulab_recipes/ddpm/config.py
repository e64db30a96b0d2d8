"""The configuration: its keys, their types and defaults, and what must fit together.

The keys are those of the recipe's origin (jax-ddpm, MIT); those that are not are marked. Each is a flag of
the commands. A key that does not exist is refused with the nearest one that does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np

from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.common.settings import changed

MeanType: TypeAlias = Literal["eps", "x", "v"]
LossWeight: TypeAlias = Literal["constant", "snr", "snr_trunc", "v_mse", "root_snr", "p2", "p2_half"]
LogvarType: TypeAlias = Literal["fixed_small", "fixed_medium", "fixed_large"]
SamplerName: TypeAlias = Literal["ddim", "ancestral"]
Scalar: TypeAlias = Literal["aesth_score", "height", "width"]
#: Pixels along one side for each latent position of the published VAE.
VAE_FACTOR = 8
#: Encoders of text, whose states are stored without padding and under these names with `_emb`.
TEXT_ENCODERS = ("clip", "t5", "bert")
TEXT_STATES = tuple(f"{name}_emb" for name in TEXT_ENCODERS)


@dataclass(frozen=True)
class DatasetArgs:
    image_size: int = 256
    resize_method: Literal["random_crop", "center_crop"] = "random_crop"
    #: Mirror half of the images in training, at random. For pixels only: latents of a mirrored image are not
    #: mirrored latents. Not in jax-ddpm.
    random_flip: bool = False
    #: The key of the images in their shards; empty: `jpg` or `png`, whichever a record has.
    image_format: str = "jpg"
    #: For files of the origin; nothing reads it; `download --samples-per-shard` sets it.
    number_sample_per_shard: int = 10_000
    number_encodings_per_shard: int = 5_120
    remove_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataset:
    #: `encodings` (TFRecords that `encode` wrote) or `shapes` (generated). Not in jax-ddpm.
    name: Literal["encodings", "shapes"] = "encodings"
    args: DatasetArgs = DatasetArgs()
    #: Share of each shard of encodings, its last records and at least one, that training does not read: the
    #: evaluator samples for them and compares with them. 0: nothing is held out. Not in jax-ddpm.
    held_out_share: float = 0.01
    #: A folder of encodings for the evaluator instead; then training reads all the others. Not in jax-ddpm.
    held_out_dir: str = ""
    #: Number of batches that are read in parallel, each on a thread. Not in jax-ddpm.
    read_ahead: int = 4
    #: Worker processes that read and decode; 0: the training process itself. Not in jax-ddpm.
    read_workers: int = 0


@dataclass(frozen=True)
class AlphaSchedule:
    """`linear` betas over `steps`, or `cosine` in continuous time between two log-SNRs."""

    name: Literal["linear", "cosine"] = "linear"
    beta_start: float = 0.00085
    beta_end: float = 0.012
    steps: int = 1000
    logsnr_min: float = -20.0
    logsnr_max: float = 20.0


@dataclass(frozen=True)
class UNetArgs:
    ch: int = 128
    emb_ch: int = 384
    ch_mult: tuple[int, ...] = (1, 2, 3, 3)
    num_res_blocks: int = 3
    attn_resolutions: tuple[int, ...] = (32, 16, 8)
    head_dim: int = 128
    dropout: float = 0.0
    logsnr_scale_range: tuple[float, float] = (-7.0, 7.0)
    #: How the log-SNR enters: `scaled` to [0, 1] by the range above, or `inv_cos` (the cosine schedule's
    #: time). Not in jax-ddpm.
    logsnr_input: Literal["scaled", "inv_cos"] = "scaled"
    resblock_resample: bool = False
    out_ch: int = 4
    seq_width: int = 1024
    #: `transformer`: transformer blocks that attend to the conditions too, as jax-ddpm has them. `plain`: the
    #: unconditional network of google-research/diffusion_distillation, with swish, plain attention, and
    #: sinusoids of `ch` instead of `emb_ch`. Not in jax-ddpm.
    blocks: Literal["transformer", "plain"] = "transformer"
    #: `bf16` or `fp32`: what the network computes in. The master weights are always fp32.
    param_dtype: Literal["bf16", "fp32"] = "bf16"
    t5_mult: float = 4.0
    aesth_score_range: tuple[float, float] = (2.0, 9.0)
    use_glu: bool = True
    use_pos_enc: bool = True
    #: Groups of the GroupNorm layers. Not in jax-ddpm: small networks have fewer than 32 channels to divide.
    norm_groups: int = 32
    #: Levels up to this one are computed again in the backward pass, for networks that do not fit a chip
    #: otherwise: about a third more operations. -1: none. Not in jax-ddpm.
    remat_levels: int = -1

    @property
    def dtype(self) -> Any:
        """What the network computes in, as NumPy and JAX name it."""
        return ml_dtypes.bfloat16 if self.param_dtype == "bf16" else np.float32


@dataclass(frozen=True)
class Conditioning:
    """The inputs of the network besides the noise level. 0 or false: none. Not in jax-ddpm."""

    #: Width and number of text states of CLIP, T5 and BERT, width of CLIP's image embedding.
    clip_width: int = 1024
    clip_length: int = 77
    t5_width: int = 4096
    t5_length: int = 77
    clip_image_width: int = 1024
    #: Scalars among `aesth_score`, `height`, `width`.
    scalars: tuple[Scalar, ...] = ("aesth_score", "height", "width")
    num_classes: int = 0
    #: The network sees a mask and what is outside it, and fills in what is inside.
    inpainting: bool = False
    #: Chance that each kind of conditioning is kept for an image in training.
    keep_text: float = 0.85
    keep_image: float = 0.1
    keep_scalars: float = 0.8
    keep_class: float = 0.9
    bert_width: int = 0
    bert_length: int = 0


def context_shapes(conditioning: Conditioning) -> dict[str, tuple[int, ...]]:
    """The keys of a batch that condition the network, with their shapes for one image."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name in TEXT_ENCODERS:
        if width := getattr(conditioning, f"{name}_width"):
            shapes[f"{name}_emb"] = (getattr(conditioning, f"{name}_length"), width)
    if conditioning.clip_image_width:
        shapes["clip_image_emb"] = (conditioning.clip_image_width,)
    shapes |= dict.fromkeys(conditioning.scalars, ())
    if conditioning.num_classes:
        shapes["class"] = ()
    return shapes


@dataclass(frozen=True)
class Model:
    name: Literal["unet_iddpm"] = "unet_iddpm"
    args: UNetArgs = UNetArgs()
    conditioning: Conditioning = Conditioning()
    mean_type: MeanType = "v"
    logvar_type: LogvarType = "fixed_large"
    #: Between small (0) and large (1), for `fixed_medium`. Not in jax-ddpm.
    logvar_coeff: float = 0.5
    mean_loss_weight_type: LossWeight = "snr"
    #: 0: continuous time.
    train_num_steps: int = 1000
    eval_sampling_num_steps: int = 50
    train_alpha_schedule: AlphaSchedule = AlphaSchedule()
    eval_alpha_schedule: AlphaSchedule = AlphaSchedule()
    tmin: int = 5
    eval_clip_denoised: bool = False
    #: Encoders: names at Hugging Face, or `small` for the fixed ones of this repository.
    t5_model_id: str = "google/t5-v1_1-xxl"
    clip_model_id: str = "laion/CLIP-ViT-H-14-laion2B-s32B-b79K"
    bert_model_id: str = "sentence-transformers/all-MiniLM-L6-v2"
    vae_id: str = "stable-diffusion-v1-5/stable-diffusion-v1-5"


@dataclass(frozen=True)
class Train:
    #: Images of one step on each host.
    batch_size: int = 256
    optimizer: Literal["adam"] = "adam"
    adam_beta2: float = 0.99
    max_learning_rate: float = 1e-4
    min_learning_rate: float = 5e-5
    learning_rate_warmup_steps: int = 5000
    weight_decay: float = 0.01
    ema_decay: float = 0.9999
    #: Largest norm of the gradient of the whole batch (averaged first, clipped afterwards).
    grad_clip: float = 1.0
    enable_update_skip: bool = True
    log_loss_every_steps: int = 500
    #: Every so many steps the evaluator runs inside the loop; 0: never.
    snapshot_freq: int = 5000
    #: How many samples it makes of encoded data.
    snapshot_images: int = 16
    #: Their distance from the data: of fixed features, or FID or KID by Inception.
    snapshot_distance: Literal["frechet", "fid", "kid"] = "frechet"
    #: A CLIP at Hugging Face, or its folder, that scores how well samples fit their captions; empty: none.
    snapshot_clip: str = ""
    log_dir: str = "{}/logs"
    checkpoint_dirs: tuple[str, ...] = ("{}/checkpoints_recent", "{}/checkpoints_permanent")
    num_checkpoints: tuple[float, ...] = (10, math.inf)
    save_freq: tuple[int, ...] = (10_000, 100_000)
    iterations: int = 1_000_000


@dataclass(frozen=True)
class Distill:
    """Progressive distillation (Salimans & Ho 2022, arXiv 2202.00512). Not in jax-ddpm."""

    start_num_steps: int = 64
    end_num_steps: int = 4
    steps_per_halving: int = 50_000
    learning_rate: float = 5e-5
    mean_loss_weight_type: LossWeight = "snr_trunc"
    #: Updates of a halving between two saved states; 0: never saved.
    save_freq: int = 5_000


@dataclass(frozen=True)
class Config:
    seed: int = 0
    dataset: Dataset = Dataset()
    sampler: SamplerName = "ddim"
    #: Height, width and channels of what is diffused (latents, or pixels).
    in_dimensions: tuple[int, int, int] = (32, 32, 4)
    model: Model = Model()
    train: Train = Train()
    distill: Distill = Distill()

    @property
    def in_pixels(self) -> bool:
        """The images themselves are diffused: no encoder for them."""
        return self.in_dimensions[2] == 3

    def but(self, changes: Mapping[str, Any]) -> Config:
        """This configuration with other settings: groups in groups, or `{"train.batch_size": 64}`. Raises
        `ConfigError` for an unknown key and for values that do not fit."""
        return config_from(changes, self)


def config_from(values: Mapping[str, Any], base: Config | None = None) -> Config:
    """`base` (the defaults) updated with `values`. Raises `ConfigError` for values that do not fit."""
    config = changed(base or Config(), values)
    check_config(config)
    return config


def check_config(config: Config) -> None:
    """Checks beyond the types: ranges, and keys that must fit together. Raises `ConfigError`."""
    dataset, model, train, distill = config.dataset, config.model, config.train, config.distill
    args, (side, width, channels) = model.args, config.in_dimensions

    def need(holds: bool, path: str, otherwise: str) -> None:
        if not holds:
            raise ConfigError(path, otherwise)

    for path, value, least in (
        ("train.batch_size", train.batch_size, 1),
        ("train.iterations", train.iterations, 1),
        ("train.log_loss_every_steps", train.log_loss_every_steps, 1),
        ("train.snapshot_images", train.snapshot_images, 1),
        ("dataset.read_ahead", dataset.read_ahead, 1),
        ("dataset.read_workers", dataset.read_workers, 0),
    ):
        need(value >= least, path, f"must be at least {least}, not {value}.")
    shares = {"dataset.held_out_share": dataset.held_out_share, "train.ema_decay": train.ema_decay}
    for path, share in shares.items():
        need(0 <= share < 1, path, f"must be in [0, 1), not {share}.")
    shape = config.in_dimensions
    need(min(shape) > 0 and side == width, "in_dimensions", f"must be square and positive, not {shape}.")
    need(channels == args.out_ch, "model.args.out_ch", f"must be {channels}, as in_dimensions has it.")
    halvings = len(args.ch_mult) - 1
    need(side % 2**halvings == 0, "in_dimensions", f"{side} cannot be halved {halvings} times (ch_mult).")
    widths = {side >> level: args.ch * mult for level, mult in enumerate(args.ch_mult)}
    groups, head = args.norm_groups, args.head_dim
    for wide in widths.values():
        need(wide % groups == 0, "model.args.norm_groups", f"{groups} does not divide {wide} channels.")
    # The innermost level always attends.
    for size in (*args.attn_resolutions, side >> halvings):
        need(size in widths, "model.args.attn_resolutions", f"{size} is none of {list(widths)}.")
        wide = widths[size]
        need(
            wide % head == 0, "model.args.head_dim", f"{head} does not divide the {wide} channels at {size}."
        )
    conditions = [*context_shapes(model.conditioning), *["inpainting"] * model.conditioning.inpainting]
    need(
        args.blocks == "transformer" or not (conditions or args.use_pos_enc),
        "model.args.blocks",
        f"`plain` has no conditions ({', '.join(conditions)}) and no position map (use_pos_enc)."
        if conditions
        else "`plain` has no position map: set model.args.use_pos_enc to false.",
    )
    image = dataset.args.image_size
    latents = image // VAE_FACTOR
    need(
        dataset.name != "encodings" or model.vae_id == "small" or side * VAE_FACTOR == image,
        "in_dimensions",
        f"images of {image} pixels have latents of {latents} x {latents} (the VAE shrinks by {VAE_FACTOR}), "
        f"not {side} x {side}.",
    )
    need(
        not dataset.args.random_flip or config.in_pixels,
        "dataset.args.random_flip",
        "needs in_dimensions with 3 channels (pixels).",
    )
    steps, schedule = model.train_num_steps, model.train_alpha_schedule
    fits = schedule.name != "linear" or steps <= schedule.steps
    need(fits, "model.train_num_steps", f"is more than the schedule's {schedule.steps} steps.")
    fits = 0 <= model.tmin < max(steps, 1)
    need(fits, "model.tmin", f"must be between 0 and train_num_steps, not {model.tmin}.")
    fits = len(train.checkpoint_dirs) == len(train.num_checkpoints) == len(train.save_freq)
    need(fits, "train.checkpoint_dirs", "needs as many entries as num_checkpoints and save_freq.")
    ratio = distill.start_num_steps / max(distill.end_num_steps, 1)
    fits = distill.end_num_steps >= 1 and ratio == 2 ** round(math.log2(max(ratio, 1)))
    need(fits, "distill.end_num_steps", "must be start_num_steps halved a number of times.")
