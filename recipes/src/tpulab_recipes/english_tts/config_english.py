"""Settings of the English TTS recipe, with the names of the seed document; docs/english-tts.md explains them.

`get_default_config()` is the published model (57.29 M parameters), `get_small_config()` the small one (9.65
M), `get_large_config()` a larger one. `get_lesson_config()` trains a voice on two CPU cores in two minutes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from tpulab_recipes.audio.mel import MelSettings
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.common.inputs import checked_count, checked_share

#: Settings that a resumed run may change: they do not change the result at a given step.
MAY_CHANGE = (
    "data_dir",
    "output_dir",
    "num_epochs",
    "save_every",
    "save_minutes",
    "sample_every",
    "keep_last_n",
    "resume_checkpoint",
    "enable_profiling",
    "enable_interbatch_profiling",
    "interbatch_report_interval",
    "enable_adaptive_memory",
    "memory_report_interval",
    "log_dir",
    "log_interval",
    "use_wandb",
    "use_tensorboard",
    "wandb_project",
    "wandb_run_name",
    "validate_every",
    "vocoder_size",
    "vocoder_steps",
    "vocoder_batch_size",
    "vocoder_frames",
    "vocoder_learning_rate",
)


@dataclass(frozen=True)
class EnglishTrainingConfig:
    # Data
    data_dir: str = ""
    """Folder in LJSpeech's layout with TextGrids. Empty: the built-in corpus, made in `output_dir`."""
    output_dir: str = "english-tts-run"
    """Folder for features, checkpoints and logs."""
    batch_size: int = 16
    """Utterances per step, of all devices together."""
    frame_buckets: tuple[int, ...] = (192, 384, 576, 768, 960)
    """Lengths that spectrograms are padded to. Each is one compiled program."""
    frames_per_phoneme: int = 4
    """The phonemes of a bucket are its frames divided by this; utterances with more go to a longer bucket."""
    on_bad_file: Literal["skip", "refuse"] = "skip"
    """What to do with a file that cannot be used: leave it out with a message, or stop."""
    alignment_tolerance: float = 0.1
    """Seconds that a TextGrid and its sound may differ in length."""
    edge_silence: float = 0.2
    """The most seconds of silence that are kept at either end of an utterance."""
    loudness: float = -23.0
    """Decibels below full scale (RMS) that every utterance is brought to; 0: as it was recorded."""
    validation_split: float = 0.05
    """Share of utterances held out."""
    corpus_count: int = 200
    """Utterances of the built-in corpus."""
    corpus_voice: Literal["formants", "hibari"] = "formants"
    """Who speaks it: a formant synthesiser with 35 words, or a voice that sounds like a person."""
    num_workers: int = 2
    """Batches that a thread keeps ready for the device."""
    seed: int = 0

    # Model
    hidden_dim: int = 512
    n_encoder_layers: int = 6
    n_decoder_layers: int = 6
    n_heads: int = 8
    encoder_ff_dim: int = 2048
    decoder_ff_dim: int = 2048
    encoder_dropout: float = 0.1
    decoder_dropout: float = 0.1
    relative_positions: int = 32
    """The distance within which the decoder's self-attention distinguishes positions."""
    postnet_dim: int = 512
    """Channels of the PostNet; 0: none."""
    frame_dropout: float = 0.5
    """Share of the decoder's input frames that are hidden in training, so that it cannot only copy. 1: all of
    them, also when it speaks."""
    cross_locality: float = 0.0
    """How much each frame of distance lowers the scores of cross-attention, in the first head; every further
    head has half of the one before. 0: attention finds the alignment alone."""
    guided: bool = False
    """Add the phoneme of each frame to the decoder's input, so that attention need not find it first."""
    max_decoder_seq_len: int = 4000
    """The most frames that are ever spoken."""

    # Training
    num_epochs: int = 100
    learning_rate: float = 1e-4
    """Peak rate."""
    scheduler: Literal["warmup_cosine", "warm_restarts"] = "warmup_cosine"
    warmup_steps: int = 500
    lr_T_0: int = 20
    """Epochs to the first warm restart."""
    lr_T_mult: int = 2
    lr_eta_min: float = 1e-6
    weight_decay: float = 0.01
    adam_betas: tuple[float, float] = (0.9, 0.999)
    max_grad_norm: float = 1.0
    """Largest norm of all gradients together; 0: not clipped."""
    mel_loss_weight: float = 1.0
    postnet_loss_weight: float = 1.0
    duration_loss_weight: float = 0.02
    stop_token_loss_weight: float = 0.1
    stop_positive_weight: float = 8.0
    """How much the one frame that ends an utterance counts against each of the others."""

    # Audio
    sample_rate: int = 22_050
    hop_length: int = 256
    win_length: int = 1024
    n_fft: int = 1024
    n_mels: int = 80
    f_min: float = 0.0
    f_max: float = 8000.0

    # Vocoder
    vocoder_size: Literal["none", "small", "full"] = "none"
    """The HiFi-GAN that `train` trains on the same sound after the voice; none: sound is Griffin-Lim's."""
    vocoder_steps: int = 50_000
    vocoder_batch_size: int = 16
    vocoder_frames: int = 32
    """Frames of each window of sound that it learns from."""
    vocoder_learning_rate: float = 2e-4
    """Its first rate, which falls to a tenth."""

    # Hardware
    use_mixed_precision: bool = True
    """bfloat16 on a TPU, float16 with loss scaling on CUDA and MPS, `cpu_precision` on the host CPU."""
    cpu_precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 halves the time of a step on processors that multiply it (AVX-512 BF16, AMX)."""
    amp_init_scale: float = 65_536.0
    amp_growth_factor: float = 2.0
    amp_backoff_factor: float = 0.5
    amp_growth_interval: int = 2000
    gradient_checkpointing: bool = True
    """Compute each layer's activations again in the backward pass instead of keeping them."""
    enable_adaptive_memory: bool = True
    memory_report_interval: int = 500
    """Batches between two reports of memory; 0: none."""

    # Logging
    save_every: int = 5
    """Epochs between two checkpoints."""
    save_minutes: float = 10.0
    """Minutes after which a checkpoint is written in any case; 0: never."""
    sample_every: int = 0
    """Steps between two samples: held-out sentences, spoken into `samples/`; 0: none."""
    keep_last_n: int = 3
    resume_checkpoint: str = "auto"
    """`auto`: the newest whole checkpoint of the output folder; a file; empty: start from the beginning."""
    validate_every: int = 1
    """Epochs between two validations; 0: none."""
    log_dir: str = "logs"
    """Folder for figures, below the output folder."""
    log_interval: int = 10
    """Batches between two rows of metrics; the device is read only then."""
    use_tensorboard: bool = False
    use_wandb: bool = False
    wandb_project: str = "english-tts"
    wandb_run_name: str = ""
    enable_profiling: bool = False
    """Write a profile of the framework for a few steps of the first epoch."""
    enable_interbatch_profiling: bool = False
    interbatch_report_interval: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame_buckets", tuple(sorted(self.frame_buckets)))
        if self.hidden_dim % (2 * self.n_heads):
            raise ConfigError(
                "hidden_dim", f"{self.hidden_dim} cannot be divided by 2 x {self.n_heads} heads."
            )
        if min(self.batch_size, self.num_epochs, self.save_every, self.keep_last_n, self.log_interval) < 1:
            raise ConfigError(
                "", "batch_size, num_epochs, save_every, keep_last_n and log_interval must be at least 1."
            )
        if not self.frame_buckets or min(self.frame_buckets) < 8 or self.frames_per_phoneme < 1:
            raise ConfigError("frame_buckets", "give at least one length of 8 frames or more.")
        least_of = {"sample_every": 0, "seed": 0, "vocoder_steps": 1, "vocoder_batch_size": 1}
        for name, least in (least_of | {"vocoder_frames": 8}).items():
            checked_count(name, getattr(self, name), least)
        if not 0 <= self.save_minutes < float("inf"):
            raise ConfigError("save_minutes", f"{self.save_minutes} is not a number of minutes from 0.")
        if self.stop_positive_weight <= 0:
            raise ConfigError("stop_positive_weight", f"{self.stop_positive_weight} is not above 0.")
        checked_share("validation_split", self.validation_split)
        if not 0 <= self.frame_dropout <= 1:
            raise ConfigError("frame_dropout", f"{self.frame_dropout} is not a share from 0 to 1.")

    def but(self, **changes: Any) -> EnglishTrainingConfig:
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> EnglishTrainingConfig:
        """Raises `ConfigError` for keys that do not exist."""
        known = {field.name for field in dataclasses.fields(EnglishTrainingConfig)}
        if unknown := sorted(set(values) - known):
            raise ConfigError(unknown[0], "there is no such setting.")
        lists: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return EnglishTrainingConfig(**lists)

    @property
    def mel(self) -> MelSettings:
        return MelSettings(
            self.sample_rate,
            self.n_fft,
            self.hop_length,
            self.win_length,
            self.n_mels,
            self.f_min,
            min(self.f_max, self.sample_rate / 2),
            center=False,
        )

    @property
    def frame_seconds(self) -> float:
        return self.hop_length / self.sample_rate

    def phonemes_of(self, frames: int) -> int:
        """Phonemes that a bucket of so many frames holds."""
        return max(8, frames // self.frames_per_phoneme)


def get_default_config() -> EnglishTrainingConfig:
    """57.29 million parameters, and 4.34 million of the PostNet."""
    return EnglishTrainingConfig()


def get_small_config() -> EnglishTrainingConfig:
    """9.65 million parameters, and the PostNet. Judged by ear on two hours of speech."""
    return EnglishTrainingConfig(
        hidden_dim=256,
        n_encoder_layers=4,
        n_decoder_layers=4,
        encoder_ff_dim=1024,
        decoder_ff_dim=1024,
        frame_dropout=1.0,
        guided=True,
        batch_size=8,
        num_epochs=10,
        learning_rate=1e-3,
        warmup_steps=200,
        duration_loss_weight=0.2,
        stop_token_loss_weight=0.2,
    )


def get_hibari_config() -> EnglishTrainingConfig:
    """`small` on two hours of a built-in voice that sounds like a person: 20 minutes of two CPU cores."""
    return get_small_config().but(
        corpus_voice="hibari",
        corpus_count=2000,
        sample_rate=16_000,
        hop_length=320,
        frames_per_phoneme=3,
        frame_buckets=(96, 128, 160, 192, 224, 256, 320),
        postnet_dim=128,
        cross_locality=0.5,
        gradient_checkpointing=False,
        cpu_precision="bfloat16",
        batch_size=4,
        num_epochs=6,
        save_every=1,
        vocoder_steps=2400,
        vocoder_batch_size=8,
        vocoder_learning_rate=8e-4,
    )


def get_large_config() -> EnglishTrainingConfig:
    return EnglishTrainingConfig(
        hidden_dim=768,
        n_encoder_layers=8,
        n_decoder_layers=8,
        encoder_ff_dim=3072,
        decoder_ff_dim=3072,
        n_heads=12,
        batch_size=32,
    )


def get_lesson_config() -> EnglishTrainingConfig:
    """A voice for the synthetic corpus, learned in two minutes on two CPU cores."""
    return EnglishTrainingConfig(
        sample_rate=16_000,
        hop_length=320,
        batch_size=16,
        frame_buckets=(96, 160),
        frames_per_phoneme=3,
        hidden_dim=96,
        n_heads=4,
        n_encoder_layers=2,
        n_decoder_layers=2,
        encoder_ff_dim=192,
        decoder_ff_dim=192,
        encoder_dropout=0.0,
        decoder_dropout=0.0,
        postnet_dim=64,
        cross_locality=0.5,
        num_epochs=30,
        learning_rate=2e-3,
        warmup_steps=20,
        duration_loss_weight=0.2,
        stop_token_loss_weight=0.2,
        gradient_checkpointing=False,
        save_every=10,
    )


PRESETS = {
    "lesson": get_lesson_config,
    "hibari": get_hibari_config,
    "small": get_small_config,
    "default": get_default_config,
    "large": get_large_config,
}
