"""Settings of the recipe under the names of `s2.json`. The defaults are the notebook's, which compile
quickly; `SMALL` learns on a synthetic corpus, and its speech is not understood (docs/recipe-notes.md);
`SPEECH` learns real voices; `FULL_SIZE` fine-tunes the published model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import tyro

from tpulab_recipes.audio.mel import MelSettings
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.common.inputs import checked_count, read_json, require_valid_key
from tpulab_recipes.runtime import PrecisionName
from tpulab_recipes.runtime.precision import check_precision

Dilations = tuple[tuple[int, ...], ...]


def check_version(version: str) -> None:
    """Raises `ConfigError` for unsupported models."""
    if version not in ("v1", "v2"):
        raise ConfigError("version", f"{version!r} is not v1 or v2; v2Pro and later are other models.")


@dataclass(frozen=True)
class Config:
    epochs: int = 40
    learning_rate: float = 3e-3
    """Of the first epoch, times lr_decay."""
    lr_decay: float = 0.999875
    """Factor for each epoch."""
    text_low_lr_rate: float = 0.4
    """Share of the learning rate for the text embedding, the text encoder and MRTE."""
    betas: tuple[float, float] = (0.8, 0.99)
    eps: float = 1e-9
    batch_size: int = 6
    """Clips per step, of all devices together."""
    c_mel: float = 45.0
    c_kl: float = 1.0
    segment_size: int = 1600
    """Samples of each clip that are generated and judged in a step; a multiple of hop_length."""
    buckets: tuple[int, ...] = (160,)
    """Frames that clips are padded to, in rising order: one program for each."""
    text_length: int = 48
    """Phonemes that texts are padded to."""
    remat: bool = False
    """Compute the generator's activations again in the backward pass (grad_ckpt of the original)."""
    precision: PrecisionName = "float32"
    seed: int = 1234

    sampling_rate: int = 8000
    filter_length: int = 512
    hop_length: int = 160
    win_length: int = 512
    n_mel_channels: int = 40
    mel_fmin: float = 0.0
    mel_fmax: float | None = None

    version: str = "v2"
    """v1 or v2: its phonemes, and the bins that the voice is taken from."""
    inter_channels: int = 32
    hidden_channels: int = 32
    filter_channels: int = 64
    n_heads: int = 2
    n_layers: int = 2
    kernel_size: int = 3
    p_dropout: float = 0.0
    resblock: str = "1"
    """1 or 2 of HiFi-GAN; or fourier, a decoder of its own (`models.FourierGenerator`)."""
    resblock_kernel_sizes: tuple[int, ...] = (5,)
    resblock_dilation_sizes: tyro.conf.Fixed[Dilations] = ((1, 3),)
    upsample_rates: tuple[int, ...] = (8, 5, 4)
    upsample_initial_channel: int = 48
    upsample_kernel_sizes: tuple[int, ...] = (16, 11, 8)
    gin_channels: int = 64
    semantic_frame_rate: str = "25hz"
    freeze_quantizer: bool = True
    ssl_channels: int = 24
    """768 with HuBERT; the small features are cepstra of a log-mel spectrogram."""
    codebook: int = 128
    style_hidden: int = 32
    style_dropout: float = 0.0
    posterior_layers: int = 2
    flow_layers: int = 1
    """Of each of the four couplings."""
    discriminator_divisor: int = 64
    """The discriminators' channels are the original's divided by this."""
    periods: tuple[int, ...] = (2, 3)
    """A discriminator each, beside the one of the wave as it is."""

    def __post_init__(self) -> None:
        check_version(self.version)
        checked_count("seed", self.seed, 0)
        for name in _COUNTS:
            checked_count(name, getattr(self, name))
        product = math.prod(self.upsample_rates)
        if product != self.hop_length:
            raise ConfigError(
                "upsample_rates",
                f"multiply to {product}; hop_length is {self.hop_length}, and must equal it.",
            )
        if self.segment_size % self.hop_length:
            raise ConfigError("segment_size", f"must be a multiple of hop_length ({self.hop_length}).")
        if sorted(self.buckets) != list(self.buckets) or any(each % 2 for each in self.buckets):
            raise ConfigError("buckets", "must rise and be even: a semantic token is two frames.")
        if not self.buckets or self.buckets[0] < self.segment_frames:
            raise ConfigError("buckets", f"begin at {self.segment_frames} frames (segment_size) at least.")
        check_precision(self.precision)

    def but(self, **changes: object) -> Config:
        return replace(self, **changes)  # type: ignore[arg-type]

    def require_first_stage(self) -> None:
        """Raises `ConfigError` where no first stage can write this voice's tokens."""
        if self.semantic_frame_rate != "25hz":
            wrong = "a first stage writes 25 semantic tokens a second; this voice only converts recordings."
            raise ConfigError("semantic_frame_rate", f"is {self.semantic_frame_rate}: {wrong}")

    @property
    def segment_frames(self) -> int:
        return self.segment_size // self.hop_length

    @property
    def mel(self) -> MelSettings:
        return MelSettings(
            self.sampling_rate,
            self.filter_length,
            self.hop_length,
            self.win_length,
            self.n_mel_channels,
            self.mel_fmin,
            self.mel_fmax,
            center=False,
        )

    @property
    def model(self) -> dict[str, Any]:
        """The arguments of `SynthesizerTrn`."""
        return {
            "spec_channels": self.filter_length // 2 + 1,
            "segment_size": self.segment_frames,
            "mrte_hidden": self.gin_channels,
            **{name: getattr(self, name) for name in (*_MODEL, *_FIXED_IN_THE_ORIGINAL)},
        }


def _keys(names: str) -> tuple[str, ...]:
    return tuple(names.split())


_COUNTS = _keys(
    "epochs batch_size text_length segment_size sampling_rate filter_length hop_length win_length "
    "n_mel_channels inter_channels hidden_channels filter_channels n_heads n_layers kernel_size gin_channels "
    "ssl_channels codebook style_hidden posterior_layers flow_layers discriminator_divisor"
)
_TRAIN = _keys(
    "epochs learning_rate lr_decay text_low_lr_rate betas eps batch_size c_mel c_kl segment_size seed"
)
_DATA = _keys("sampling_rate filter_length hop_length win_length n_mel_channels mel_fmin mel_fmax")
_MODEL = _keys(
    "inter_channels hidden_channels filter_channels n_heads n_layers kernel_size p_dropout resblock "
    "resblock_kernel_sizes resblock_dilation_sizes upsample_rates upsample_initial_channel "
    "upsample_kernel_sizes gin_channels semantic_frame_rate freeze_quantizer version"
)
_FIXED_IN_THE_ORIGINAL = _keys(
    "ssl_channels codebook style_hidden style_dropout posterior_layers flow_layers"
)

SMALL = Config(
    # A tenth after 76 epochs: at a steady rate the converted voice swings from step to step.
    lr_decay=0.97,
    segment_size=2560,
    resblock_dilation_sizes=((1, 3, 5),),
    posterior_layers=4,
    flow_layers=2,
    periods=(2, 3, 5),
)

#: Converts real speech after minutes on a CPU, with the states of Whisper tiny (docs/recipe-notes.md). With
#: 50 tokens per second it speaks no texts (`require_first_stage`).
SPEECH = Config(
    learning_rate=1e-3,
    lr_decay=0.985,
    batch_size=8,
    # At 1 too little passes the posterior for words (docs/recipe-notes.md).
    c_kl=0.1,
    segment_size=10_240,
    buckets=(176, 240, 320),
    text_length=112,
    sampling_rate=16_000,
    filter_length=1024,
    hop_length=320,
    win_length=1024,
    n_mel_channels=80,
    inter_channels=48,
    hidden_channels=64,
    filter_channels=128,
    resblock="fourier",
    resblock_kernel_sizes=(7, 7, 7, 7),
    resblock_dilation_sizes=((1,),) * 4,
    upsample_rates=(320,),
    upsample_initial_channel=160,
    upsample_kernel_sizes=(1024,),
    gin_channels=96,
    semantic_frame_rate="50hz",
    ssl_channels=384,
    codebook=512,
    style_hidden=64,
    posterior_layers=3,
    flow_layers=2,
    discriminator_divisor=32,
    periods=(2, 3, 5),
)

FULL_SIZE = Config(
    epochs=8,
    learning_rate=1e-4,
    batch_size=32,
    segment_size=20_480,
    buckets=(300, 500, 700, 1000, 1400, 1900),
    text_length=256,
    precision="bfloat16",
    sampling_rate=32_000,
    filter_length=2048,
    hop_length=640,
    win_length=2048,
    n_mel_channels=128,
    inter_channels=192,
    hidden_channels=192,
    filter_channels=768,
    n_layers=6,
    p_dropout=0.1,
    resblock_kernel_sizes=(3, 7, 11),
    resblock_dilation_sizes=((1, 3, 5),) * 3,
    upsample_rates=(10, 8, 2, 2, 2),
    upsample_initial_channel=512,
    upsample_kernel_sizes=(16, 16, 8, 2, 2),
    gin_channels=512,
    ssl_channels=768,
    codebook=1024,
    style_hidden=128,
    style_dropout=0.1,
    posterior_layers=16,
    flow_layers=4,
    discriminator_divisor=1,
    periods=(2, 3, 5, 7, 11),
)


@dataclass(frozen=True)
class FirstStageConfig:
    """The defaults are a lesson's; `FULL_FIRST_STAGE` has the published size."""

    version: str = "v2"
    """v1 or v2: its phonemes."""
    hidden_dim: int = 96
    head: int = 4
    n_layer: int = 3
    codebook: int = 128
    """Semantic tokens of the second stage."""
    bert_channels: int = 1024
    epochs: int = 20
    batch_size: int = 4
    """Clips that are computed at once, of all devices together."""
    grad_accum_steps: int = 1
    """Batches whose gradients one update has."""
    learning_rate: float = 0.002
    """Relative to the size of each weight."""
    max_sec: float = 38.0
    """Longer clips are left out, as the second stage's longest bucket does."""
    remat: bool = False
    """Compute each layer's activations again in the backward pass."""
    precision: PrecisionName = "float32"
    seed: int = 1234

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 1), ("grad_accum_steps", 1), ("seed", 0)):
            checked_count(name, getattr(self, name), least)
        check_version(self.version)

    @property
    def sizes(self) -> dict[str, int]:
        """The section `model` of the original's configuration."""
        return {
            "vocab_size": self.codebook + 1,
            "phoneme_vocab_size": 512 if self.version == "v1" else 732,
            "embedding_dim": self.hidden_dim,
            "hidden_dim": self.hidden_dim,
            "head": self.head,
            "n_layer": self.n_layer,
            "EOS": self.codebook,
        }


FULL_FIRST_STAGE = FirstStageConfig(
    hidden_dim=512,
    head=16,
    n_layer=24,
    codebook=1024,
    epochs=15,
    batch_size=8,
    grad_accum_steps=4,
    remat=True,
    precision="bfloat16",
)


#: Keys that name places (`Places`), and keys that change nothing here: the original's own front end, what its
#: model ignores too, and half precision with a scaler, for which `precision` stands.
_PLACES = {"train": ("pretrained_s2G", "pretrained_s2D"), "data": ("exp_dir",), "model": ()}
_IDLE = {
    "train": _keys(
        "log_interval eval_interval fp16_run init_lr_ratio warmup_epochs gpu_numbers save_every_epoch "
        "if_save_latest if_save_every_weights lora_rank"
    ),
    "data": _keys("max_wav_value add_blank n_speakers cleaned_text training_files"),
    "model": _keys("n_layers_q use_spectral_norm"),
}
_KEYS: Mapping[str, tuple[str, ...]] = {"train": (*_TRAIN, "grad_ckpt"), "data": _DATA, "model": _MODEL}
_TOP = _keys("s2_ckpt_dir content_module save_weight_dir name version pretrain resume_step")


@dataclass(frozen=True)
class Places:
    """Entries of an `s2.json` beside the settings; empty: nothing."""

    pretrained_s2G: str = ""
    pretrained_s2D: str = ""
    exp_dir: str = ""


def read_s2_config(file: str | Path, config: Config) -> tuple[Config, Places, tuple[str, ...]]:
    """The settings with those of an `s2.json`, its places, and the keys that have no effect here.

    Raises `ConfigError` for a file that cannot be read and for keys that do not exist.
    """
    written = read_json(file, "config_file")
    changes: dict[str, Any] = {}
    places: dict[str, str] = {}
    idle = []
    for section, values in written.items():
        require_valid_key(section, (*_KEYS, *_TOP), file)
        if section not in _KEYS:
            if section == "version":
                changes["version"] = values
            else:
                idle.append(section)
            continue
        if not isinstance(values, dict):
            raise ConfigError(section, f"{file}: it must be an object.")
        known = (*_KEYS[section], *_PLACES[section], *_IDLE[section])
        for key, value in values.items():
            require_valid_key(key, known, file, section)
            if key in _PLACES[section]:
                places[key] = str(value or "")
            elif key in _IDLE[section]:
                idle.append(f"{section}.{key}")
            else:
                name = "remat" if key == "grad_ckpt" else key
                changes[name] = tuples(value)
    try:
        return config.but(**changes), Places(**places), tuple(idle)
    except TypeError as error:
        raise ConfigError("", f"{file}: a value has the wrong type ({error}).") from error


def config_from(written: Mapping[str, Any], file: str | Path) -> Config:
    """The settings that a training wrote. Raises `ConfigError` for a key that does not exist or a value of a
    wrong type."""
    for key in written:
        require_valid_key(key, [field.name for field in fields(Config)], file)
    try:
        return Config(**tuples(dict(written)))
    except (TypeError, ValueError) as error:
        raise ConfigError("", f"{file}: a value has the wrong type ({error}).") from error


def tuples(value: Any) -> Any:
    """Lists of a JSON value as tuples."""
    if isinstance(value, dict):
        return {key: tuples(each) for key, each in value.items()}
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def s2_json(config: Config) -> dict[str, Any]:
    """The settings as the original writes them, for its files."""

    # Converted through JSON, whose only sequences are lists.
    values = {**json.loads(json.dumps(asdict(config))), "grad_ckpt": config.remat}
    sections: dict[str, Any] = {
        section: {key: values[key] for key in keys} for section, keys in _KEYS.items()
    }
    # The original's model requires this key and ignores it.
    sections["data"]["n_speakers"] = 300
    return sections
