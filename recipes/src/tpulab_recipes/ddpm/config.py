"""The configuration file: its keys, their types and defaults, and how it is read.

The keys are those of the recipe's origin (jax-ddpm, MIT); the few that are ours are marked. A key that does
not exist is refused with the nearest one that does.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import runpy
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tpulab_recipes.ddpm.errors import ConfigError

MEAN_TYPES = ("eps", "x", "v")
LOSS_WEIGHTS = ("constant", "snr", "snr_trunc", "v_mse", "root_snr", "p2", "p2_half")
LOGVAR_TYPES = ("fixed_small", "fixed_medium", "fixed_large")
SAMPLERS = ("ddim", "ancestral")
#: Pixels along one side for each latent position of the published VAE.
VAE_FACTOR = 8


@dataclass(frozen=True)
class DatasetArgs:
    image_size: int = 256
    resize_method: str = "random_crop"
    image_format: str = "jpg"
    #: For files of the origin; nothing reads it. `download --samples_per_shard` says it.
    number_sample_per_shard: int = 10_000
    number_encodings_per_shard: int = 5_120
    remove_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataset:
    #: `encodings` (TFRecords that `encode` wrote) or `shapes` (made on the fly). Ours.
    name: str = "encodings"
    args: DatasetArgs = DatasetArgs()
    #: Share of each shard of encodings, its last records and at least one, that training does not read: the
    #: evaluator samples for them and compares with them. 0: nothing is held out. Ours.
    held_out_share: float = 0.01
    #: A folder of encodings for the evaluator instead; then training reads all the others. Ours.
    held_out_dir: str = ""


@dataclass(frozen=True)
class AlphaSchedule:
    """`linear` betas over `steps`, or `cosine` in continuous time between two log-SNRs."""

    name: str = "linear"
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
    #: time). Ours.
    logsnr_input: str = "scaled"
    resblock_resample: bool = False
    out_ch: int = 4
    seq_width: int = 1024
    #: `bf16` or `fp32`: what the network computes in. The master weights are always fp32.
    param_dtype: str = "bf16"
    t5_mult: float = 4.0
    aesth_score_range: tuple[float, float] = (2.0, 9.0)
    use_glu: bool = True
    use_pos_enc: bool = True
    #: Groups of the GroupNorm layers. Ours: small networks have fewer than 32 channels to share out.
    norm_groups: int = 32
    #: Levels up to this one are computed again in the backward pass. -1: none. Ours.
    remat_levels: int = 2


@dataclass(frozen=True)
class Conditioning:
    """What the network is told besides the noise level. 0 or false: not at all. Ours."""

    #: Width and number of text states of CLIP and T5, width of CLIP's image embedding.
    clip_width: int = 1024
    clip_length: int = 77
    t5_width: int = 4096
    t5_length: int = 77
    clip_image_width: int = 1024
    #: Scalars among `aesth_score`, `height`, `width`.
    scalars: tuple[str, ...] = ("aesth_score", "height", "width")
    num_classes: int = 0
    #: The network sees a mask and what is outside it, and fills in what is inside.
    inpainting: bool = False
    #: Chance that each kind of conditioning is kept for an image in training.
    keep_text: float = 0.85
    keep_image: float = 0.1
    keep_scalars: float = 0.8
    keep_class: float = 0.9


@dataclass(frozen=True)
class Model:
    name: str = "unet_iddpm"
    args: UNetArgs = UNetArgs()
    conditioning: Conditioning = Conditioning()
    mean_type: str = "v"
    logvar_type: str = "fixed_large"
    #: Between small (0) and large (1), for `fixed_medium`. Ours.
    logvar_coeff: float = 0.5
    mean_loss_weight_type: str = "snr"
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
    vae_id: str = "stable-diffusion-v1-5/stable-diffusion-v1-5"


@dataclass(frozen=True)
class Train:
    #: Images of one step on each host.
    batch_size: int = 256
    optimizer: str = "adam"
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
    log_dir: str = "{}/logs"
    checkpoint_dirs: tuple[str, ...] = ("{}/checkpoints_recent", "{}/checkpoints_permanent")
    num_checkpoints: tuple[float, ...] = (10, math.inf)
    save_freq: tuple[int, ...] = (10_000, 100_000)
    iterations: int = 1_000_000


@dataclass(frozen=True)
class Distill:
    """Progressive distillation (Salimans & Ho 2022, arXiv 2202.00512). Ours."""

    start_num_steps: int = 64
    end_num_steps: int = 4
    steps_per_halving: int = 50_000
    learning_rate: float = 5e-5
    mean_loss_weight_type: str = "snr_trunc"


@dataclass(frozen=True)
class Config:
    seed: int = 0
    dataset: Dataset = Dataset()
    sampler: str = "ddim"
    #: Height, width and channels of what is diffused (latents, or pixels).
    in_dimensions: tuple[int, int, int] = (32, 32, 4)
    model: Model = Model()
    train: Train = Train()
    distill: Distill = field(default_factory=Distill)

    @property
    def in_pixels(self) -> bool:
        """The images themselves are diffused: no encoder for them."""
        return self.in_dimensions[2] == 3


def config_from(values: Mapping[str, Any], base: Config | None = None) -> Config:
    """`base` (the defaults) with `values` over it. Raises `ConfigError` for what does not fit."""
    config = _overlay(base or Config(), values, "")
    check_config(config)
    return config


def load_config(source: str | Path) -> Config:
    """Reads a preset's name, or a `.py` file with `get_config()`, `.toml` or `.json`. A key `preset` names
    the base."""
    from tpulab_recipes.ddpm.presets import PRESETS

    if str(source) in PRESETS:
        return PRESETS[str(source)]
    values = dict(_read_file(Path(source)))
    preset = values.pop("preset", None)
    if preset is not None and preset not in PRESETS:
        raise ConfigError("preset", f"there is no preset {preset!r}; known: {', '.join(PRESETS)}.")
    return config_from(values, PRESETS[preset] if preset is not None else None)


def with_settings(config: Config, settings: typing.Iterable[str]) -> Config:
    """Applies `train.batch_size=64` and the like; the values are JSON, or plain text."""
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError(setting, "write a setting as key=value, for example train.batch_size=64.")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        for name in reversed(path.split(".")):
            value = {name: value}
        config = _overlay(config, value, "")
    check_config(config)
    return config


def to_dict(config: Any) -> dict[str, Any]:
    """Plain values that `config_from` reads back (JSON has no infinity: it is written as the text `inf`)."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return "inf" if value == math.inf else value

    return typing.cast(dict[str, Any], plain(dataclasses.asdict(config)))


def check_config(config: Config) -> None:
    """What the types cannot say: choices, and keys that must fit together."""
    model, train, args = config.model, config.train, config.model.args
    _choice("sampler", config.sampler, SAMPLERS)
    _choice("dataset.name", config.dataset.name, ("encodings", "shapes"))
    if not 0 <= config.dataset.held_out_share < 1:
        raise ConfigError(
            "dataset.held_out_share", f"must be in [0, 1), not {config.dataset.held_out_share}."
        )
    _choice("model.name", model.name, ("unet_iddpm",))
    _choice("model.mean_type", model.mean_type, MEAN_TYPES)
    _choice("model.logvar_type", model.logvar_type, LOGVAR_TYPES)
    _choice("model.mean_loss_weight_type", model.mean_loss_weight_type, LOSS_WEIGHTS)
    _choice("distill.mean_loss_weight_type", config.distill.mean_loss_weight_type, LOSS_WEIGHTS)
    _choice("model.args.param_dtype", args.param_dtype, ("bf16", "fp32"))
    _choice("model.args.logsnr_input", args.logsnr_input, ("scaled", "inv_cos"))
    _choice("train.optimizer", train.optimizer, ("adam",))
    _choice("dataset.args.resize_method", config.dataset.args.resize_method, ("random_crop", "center_crop"))
    for which in ("train_alpha_schedule", "eval_alpha_schedule"):
        _choice(f"model.{which}.name", getattr(model, which).name, ("linear", "cosine"))
    for scalar in model.conditioning.scalars:
        _choice("model.conditioning.scalars", scalar, ("aesth_score", "height", "width"))
    height, width, channels = config.in_dimensions
    if min(config.in_dimensions) < 1 or height != width:
        raise ConfigError("in_dimensions", f"must be square and positive, not {config.in_dimensions}.")
    if channels != args.out_ch:
        raise ConfigError(
            "model.args.out_ch", f"is {args.out_ch}, but in_dimensions has {channels} channels."
        )
    shrink = 2 ** (len(args.ch_mult) - 1)
    if height % shrink:
        raise ConfigError(
            "in_dimensions", f"{height} cannot be halved {len(args.ch_mult) - 1} times (ch_mult)."
        )
    for mult in args.ch_mult:
        if args.ch * mult % args.norm_groups:
            raise ConfigError(
                "model.args.norm_groups", f"{args.norm_groups} does not divide {args.ch * mult} channels."
            )
    sizes = [height // 2**level for level in range(len(args.ch_mult))]
    for size in args.attn_resolutions:
        if size not in sizes:
            raise ConfigError("model.args.attn_resolutions", f"{size} is none of the resolutions {sizes}.")
        if args.ch * args.ch_mult[sizes.index(size)] % args.head_dim:
            raise ConfigError(
                "model.args.head_dim", f"{args.head_dim} does not divide the channels at {size}."
            )
    if args.ch * args.ch_mult[-1] % args.head_dim:
        raise ConfigError("model.args.head_dim", f"{args.head_dim} does not divide the innermost channels.")
    image_size = config.dataset.args.image_size
    if config.dataset.name == "encodings" and model.vae_id != "small" and height * VAE_FACTOR != image_size:
        raise ConfigError(
            "in_dimensions",
            f"images of {image_size} pixels have latents of {image_size // VAE_FACTOR} x "
            f"{image_size // VAE_FACTOR} (the VAE shrinks by {VAE_FACTOR}), not {height} x {height}.",
        )
    schedule = model.train_alpha_schedule
    if model.train_num_steps and schedule.name == "linear" and model.train_num_steps > schedule.steps:
        raise ConfigError("model.train_num_steps", f"is more than the schedule's {schedule.steps} steps.")
    if not 0 <= model.tmin < max(model.train_num_steps, 1):
        raise ConfigError("model.tmin", f"must be between 0 and train_num_steps, not {model.tmin}.")
    lengths = {len(train.checkpoint_dirs), len(train.num_checkpoints), len(train.save_freq)}
    if len(lengths) != 1:
        raise ConfigError("train.checkpoint_dirs", "needs as many entries as num_checkpoints and save_freq.")
    for name in ("batch_size", "iterations", "log_loss_every_steps"):
        if getattr(train, name) < 1:
            raise ConfigError(f"train.{name}", f"must be at least 1, not {getattr(train, name)}.")
    if not 0 <= train.ema_decay < 1:
        raise ConfigError("train.ema_decay", f"must be in [0, 1), not {train.ema_decay}.")
    ratio = config.distill.start_num_steps / max(config.distill.end_num_steps, 1)
    if config.distill.end_num_steps < 1 or ratio != 2 ** round(math.log2(max(ratio, 1))):
        raise ConfigError("distill.end_num_steps", "must be start_num_steps halved a number of times.")


def _choice(path: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(path, f"{value!r} is none of {', '.join(choices)}.{_nearest(value, choices)}")


def _nearest(name: str, names: typing.Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.4)
    return f" Did you mean {close[0]!r}?" if close else ""


T = TypeVar("T")


def _overlay(base: T, values: Any, path: str) -> T:
    if dataclasses.is_dataclass(values) and not isinstance(values, type):
        values = dataclasses.asdict(values)
    if not isinstance(values, Mapping):
        raise ConfigError(path, f"must be a group of keys, not {values!r}.")
    hints = typing.get_type_hints(type(base))
    changes: dict[str, Any] = {}
    for name, value in values.items():
        where = f"{path}.{name}" if path else str(name)
        if name not in hints:
            raise ConfigError(where, f"there is no such key.{_nearest(str(name), hints)}")
        current = getattr(base, name)
        if dataclasses.is_dataclass(current):
            changes[name] = _overlay(current, value, where)
        else:
            changes[name] = _value(value, hints[name], where)
    return typing.cast(T, dataclasses.replace(typing.cast(Any, base), **changes))


def _value(value: Any, kind: Any, path: str) -> Any:
    origin = typing.get_origin(kind)
    if origin is tuple:
        if isinstance(value, str) or not isinstance(value, list | tuple):
            raise ConfigError(path, f"must be a list, not {value!r}.")
        kinds = typing.get_args(kind)
        if kinds[-1] is Ellipsis:
            return tuple(_value(item, kinds[0], path) for item in value)
        if len(kinds) != len(value):
            raise ConfigError(path, f"must have {len(kinds)} entries, not {len(value)}.")
        return tuple(_value(item, item_kind, path) for item, item_kind in zip(value, kinds, strict=True))
    if origin is types.UnionType or origin is typing.Union:
        raise ConfigError(path, "has a type that files cannot state.")
    if kind is float and not isinstance(value, bool):
        if isinstance(value, int | float):
            return float(value)
        if value == "inf":
            return math.inf
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise ConfigError(path, f"must be {kind.__name__}, not {value!r}.")


def _read_file(path: Path) -> Mapping[str, Any]:
    try:
        if path.suffix == ".toml":
            return tomllib.loads(path.read_text())
        if path.suffix == ".json":
            return typing.cast(Mapping[str, Any], json.loads(path.read_text()))
        if path.suffix == ".py":
            get_config = runpy.run_path(str(path)).get("get_config")
            if get_config is None:
                raise ConfigError("", f"{path} has no function get_config().")
            found = get_config()
            return typing.cast(Mapping[str, Any], found.to_dict() if hasattr(found, "to_dict") else found)
    except FileNotFoundError:
        raise _no_config(path) from None
    except (ValueError, tomllib.TOMLDecodeError) as error:
        raise ConfigError("", f"{path} cannot be read: {error}") from error
    if not path.exists():
        raise _no_config(path)
    raise ConfigError("", f"{path} must end in .py, .toml or .json, or be the name of a preset.")


def _no_config(path: Path) -> ConfigError:
    from tpulab_recipes.ddpm.presets import PRESETS

    known = f"There is no file {path}, and no preset of that name ({', '.join(PRESETS)})."
    return ConfigError("", known + _nearest(str(path), PRESETS))
