"""Settings of the recipe. With the defaults the tiny model learns the synthetic corpus (docs/dia.md);
`FULL_SIZE` fine-tunes the published model.

`read_train_config` reads the JSON files of dia-finetuning: a training file, which may name a model file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import tyro

from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.common.inputs import checked_count, read_json, require_valid_key
from tpulab_recipes.common.settings import changed
from tpulab_recipes.runtime import PrecisionName
from tpulab_recipes.runtime.precision import check_precision

#: Lengths are rounded up to a multiple of this, so that few lengths mean few programs.
LENGTH_STEP = 128


@dataclass(frozen=True)
class Config:
    model: str = ""
    """Folder or Hugging Face name of a checkpoint (`nari-labs/Dia-1.6B-0626`). Empty: a tiny random model,
    which `finetune` trains only if the preset `small` is named."""
    rule: str = ""
    """`0626` or `v0.1`, needed only where the checkpoint's config.json does not name it."""
    audio_length: int = 384
    """Rows of codes of each clip, delay included; 86 rows are a second of sound. Rounded up to 128."""
    text_length: int = 128
    """Bytes of text of each clip. Rounded up to 128."""
    batch_size: int = 2
    """Clips per step, of all devices together."""
    grad_accum_steps: int = 1
    """Parts that a batch is computed in, one after the other; the update is that of the whole batch."""
    epochs: int = 4
    learning_rate: float = 5e-3
    """Peak rate: reached after the warm-up, then along a cosine down to zero."""
    lora_learning_rate: float = 0.0
    """Peak rate of adapters; 0: `learning_rate`."""
    first_channel_weight: float = 1.0
    """Weight of each label of the first of the nine channels; the other channels' labels have weight 1. The
    original uses 4."""
    warmup_steps: int = 20
    unconditional_frac: float = 0.15
    """Share of clips trained without their text; guidance needs it."""
    weight_decay: float = 0.01
    """Not applied to norms."""
    clip_norm: float = 5.0
    """Largest norm of all gradients together; 0: not clipped."""
    lora_rank: int = 0
    """Train adapters of this rank instead of all parameters; 0: all parameters."""
    ema: float = 0.0
    """Decay of a running average of the parameters, which is evaluated and exported; 0: none."""
    remat: bool = False
    """Compute each layer's activations again in the backward pass instead of keeping them."""
    scan_layers: bool = False
    """Make the layers of each half one loop of the program, which is compiled once for all of them. By
    torch_xla; elsewhere they stay one after the other."""
    shard: bool = False
    """Divide parameters, gradients and optimizer state among the devices (needs `--spmd`)."""
    precision: PrecisionName = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("audio_length", "text_length"):
            rounded = -(-checked_count(name, getattr(self, name)) // LENGTH_STEP) * LENGTH_STEP
            object.__setattr__(self, name, rounded)
        for name in ("learning_rate", "first_channel_weight"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(name, f"{getattr(self, name)} is not a number above 0.")
        if min(self.batch_size, self.grad_accum_steps, self.epochs) < 1:
            raise ConfigError("", "batch_size, grad_accum_steps and epochs must be at least 1.")
        if self.batch_size % self.grad_accum_steps:
            raise ConfigError(
                "grad_accum_steps",
                f"{self.batch_size} clips cannot be divided into {self.grad_accum_steps} parts.",
            )
        if not (0 <= self.unconditional_frac < 1 and 0 <= self.ema < 1):
            raise ConfigError("", "unconditional_frac and ema must be from 0 to less than 1.")
        for name in ("warmup_steps", "lora_rank", "lora_learning_rate", "weight_decay", "clip_norm"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(name, f"{getattr(self, name)} is not a number from 0.")
        check_precision(self.precision)

    @property
    def peak(self) -> float:
        """Peak learning rate."""
        return (self.lora_rank and self.lora_learning_rate) or self.learning_rate

    def but(self, **changes: object) -> Config:
        return replace(self, **changes)  # type: ignore[arg-type]


FULL_SIZE = Config(
    model="nari-labs/Dia-1.6B-0626",
    audio_length=1024,
    text_length=512,
    batch_size=8,
    epochs=1,
    learning_rate=1e-5,
    # As users of peft train adapters; the rate of the whole model would leave them as they are.
    lora_learning_rate=1e-4,
    first_channel_weight=4.0,
    warmup_steps=500,
    weight_decay=0.1,
    remat=True,
    precision="bfloat16",
)


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen; the defaults are the original's. A `Fixed` field is not a flag, because
    `Config` has a flag of that name."""

    max_tokens: int = 3072
    """Rows of the table at most, prompt and delay included; channel 0 ends `max(delay)` rows before."""
    guidance: float = 3.0
    temperature: float = 1.2
    """0: the most probable token."""
    top_p: float = 0.95
    top_k: int = 45
    seed: tyro.conf.Fixed[tyro.conf.Suppress[int]] = 0
    text_length: tyro.conf.Fixed[tyro.conf.Suppress[int]] = 0
    """Text positions; 0: those of the longest text, rounded up to 128. Fix it to keep one program."""
    short_prompt_table: bool = False
    """As the original, whose table of known cells is one row short: the last channel's last known cell is
    left to the model. For comparison only; training and transformers know it."""


_TRAINING = "batch_size grad_accum_steps epochs learning_rate warmup_steps unconditional_frac weight_decay"
#: Sections and keys of a training file; other keys stand for a place (`Places`).
KEYS: Mapping[str, tuple[str, ...]] = {
    "experiment_id": (),
    "preset": (),
    "data": ("audio_folder", "preencoded_dir", "config"),
    "training": tuple(_TRAINING.split()),
    "output": ("output_dir", "run_name", "save_every"),
    "eval": ("eval_step", "demo_every", "eval_every_epochs", "demo_every_epochs", "save_every_epochs"),
    "flags": ("scratch",),
}


@dataclass(frozen=True)
class Places:
    """Entries of a training file beside the settings; empty: nothing."""

    audio_folder: str = ""
    preencoded_dir: str = ""
    output_dir: str = ""
    run_name: str = ""
    config: str = ""
    save_every: int = 0
    demo_every: int = 0
    scratch: bool = False

    @property
    def data(self) -> str:
        return self.preencoded_dir or self.audio_folder

    @property
    def output(self) -> str:
        return "/".join(part for part in (self.output_dir, self.run_name) if part)


def config_from(written: Mapping[str, object]) -> Config:
    """The settings in a checkpoint. Raises `ConfigError` for a key that does not exist here."""
    for key in written:
        require_valid_key(key, [field.name for field in fields(Config)], "the checkpoint")
    return Config(**written)  # type: ignore[arg-type]


def named_preset(argv: Sequence[str], presets: Sequence[str]) -> str:
    """The preset that the training file of a command line names (`preset`); empty where none does."""
    words = [word.replace("-", "_") for word in argv]
    for number, word in enumerate(words):
        _, equals, value = argv[number].partition("=")
        if word.partition("=")[0] == "__train_config":
            file = value if equals else "".join(argv[number + 1 : number + 2])
            named = read_json(file, "train_config").get("preset", "")
            if named and named not in presets:
                raise ConfigError("preset", f"{file}: {named!r} is none of {', '.join(presets)}.")
            return str(named)
    return ""


def read_train_config(file: str | Path, config: Config) -> tuple[Config, Places, tuple[str, ...]]:
    """The settings with those of a training file, its places, and the keys that have no effect here.

    `data.config` names a model file, relative to the training file, whose lengths count; the sizes are the
    checkpoint's. Raises `ConfigError` for a file that cannot be read and for keys that do not exist.
    """
    written = read_json(file, "train_config")
    for section, values in written.items():
        require_valid_key(section, KEYS, file)
        if KEYS[section]:
            if not isinstance(values, dict):
                raise ConfigError(section, f"{file}: it must be an object.")
            for key in values:
                require_valid_key(key, KEYS[section], file, section)
    found = {
        key: value
        for name in ("data", "output", "eval", "flags")
        for key, value in written.get(name, {}).items()
    }
    known = {field.name for field in fields(Places)}
    # The original writes null for omitted settings.
    named = {key: value for key, value in found.items() if key in known and value is not None}
    places = changed(Places(), named, f"{file}: ")
    config = _changed(config, written.get("training", {}), file, "training.")
    if places.config:
        model_file = Path(file).parent / places.config
        lengths = read_json(model_file, "data.config").get("data", {})
        if not isinstance(lengths, dict):
            raise ConfigError("data", f"{model_file}: it must be an object.")
        picked = {key: lengths[key] for key in ("audio_length", "text_length") if key in lengths}
        config = _changed(config, picked, model_file, "data.")
    if places.scratch:
        config = config.but(model="")
    return config, places, tuple(f"eval.{key}" for key in written.get("eval", {}) if key != "demo_every")


def _changed(config: Config, values: object, file: str | Path, section: str) -> Config:
    """`changed`, whose errors name the file, even errors about several settings."""
    try:
        return changed(config, values, section)
    except ConfigError as error:
        raise ConfigError("", f"{file}: {error}") from error
