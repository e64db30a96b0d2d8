"""`python -m tpulab_recipes.english_tts COMMAND`: prepare, train, validate, speak, export, profile."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tyro

from tpulab_recipes import runtime
from tpulab_recipes.common.command_line import (
    Command,
    exit_status,
    print_result,
    print_training_result,
    read_subcommand,
)
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.common.log_writers import checked_wandb
from tpulab_recipes.common.preparation import report_left_out, require_output_file
from tpulab_recipes.common.progress import Terminal
from tpulab_recipes.english_tts.config_english import PRESETS, EnglishTrainingConfig, get_lesson_config

_ABOUT = "English text to speech: trains a voice from texts, sound and alignments, and speaks with it."


@dataclass(frozen=True, kw_only=True)
class TtsCommand(Command):
    preset: Literal["lesson", "hibari", "small", "default", "large"] = "lesson"  # type: ignore[assignment]
    """The lesson of two minutes; `small` on built-in speech that sounds like a person; 9.65, 57.29 or 171
    million parameters. The other flags change it."""
    config: tyro.conf.OmitArgPrefixes[EnglishTrainingConfig] = field(default_factory=get_lesson_config)
    device_type: Literal["cuda", "mps"] | None = None
    """Train on this GPU type in plain PyTorch. None: the backend's device."""

    def choose_backend(self) -> Any:
        if self.device_type is None:
            return super().choose_backend()
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise ConfigError(
                "device_type",
                f"{self.device_type} trains in one process; unset WORLD_SIZE, or use a backend.",
            )
        from tpulab_recipes.english_tts.device_type import DeviceType, GraphicsBackend

        return GraphicsBackend(DeviceType(self.device_type))


@dataclass(frozen=True, kw_only=True)
class Prepare(TtsCommand):
    """Computes features and statistics from sound, texts and TextGrids, once."""

    def run(self) -> None:
        from tpulab_recipes.english_tts.data import prepare

        found = prepare(self.config.data_dir, self.config.output_dir, self.config, Terminal())
        report_left_out(self.config.output_dir, found["left_out"])
        print_result(
            utterances=len(found["names"]),
            left_out=len(found["left_out"]),
            seconds=found["seconds"],
            symbols=len(found["symbols"]),
        )


@dataclass(frozen=True, kw_only=True)
class Train(TtsCommand):
    """Trains the voice, and prepares missing features first. Run the same command again, or with
    `--resume auto`, to resume."""

    resume: str | None = None
    """`auto` or a file; the same as `--resume-checkpoint`."""

    def run(self) -> None:
        from tpulab_recipes.english_tts.checkpoint_manager import BEST, load_checkpoint, save_final_model
        from tpulab_recipes.english_tts.data import ensure_prepared
        from tpulab_recipes.english_tts.model import KokoroModel

        config = self.config
        if config.use_wandb:
            checked_wandb()
        backend = self.use_backend()
        if self.resume is not None:
            config = config.but(resume_checkpoint=self.resume)
        named = self.preset == "hibari" or {"corpus_count", "corpus_voice"} & set(self.given)
        ensure_prepared(config, Terminal(), built_in=bool(named))
        trainer = _trainer(config, backend)
        trainer.setup_checkpoint_resumption()
        began = time.perf_counter()
        found = trainer.train()
        seconds = time.perf_counter() - began
        held_out = trainer.validate()
        if backend.world().is_main:
            best, model = load_checkpoint(Path(config.output_dir) / BEST), trainer.model
            if trainer.held_out and best is not None:
                print(f"model/ is the best by validation, of step {best['step']}", flush=True)
                model = KokoroModel(config, len(trainer.processor))
                model.load_state_dict(best["model"])
            save_final_model(Path(config.output_dir) / "model", model, config, trainer.processor)
        trainer.close()
        if config.vocoder_size != "none" and trainer.epoch == config.num_epochs:
            from tpulab_recipes.english_tts.vocoder import save_vocoder, train_vocoder

            vocoder = train_vocoder(trainer)
            if backend.world().is_main:
                save_vocoder(Path(config.output_dir) / "model", vocoder)
        print_training_result(
            backend,
            steps=trainer.steps_done,
            epochs=trainer.epoch,
            seconds=round(seconds, 2),
            loss=found.get("total"),
            validation_loss=held_out.get("total"),
            best_validation_loss=trainer.best if trainer.held_out else None,
        )


@dataclass(frozen=True, kw_only=True)
class Validate(TtsCommand):
    """Prints the losses of the newest checkpoint on the held-out utterances."""

    best: bool = False
    """The best checkpoint instead of the newest."""

    def run(self) -> None:
        trainer = _resumed(self.config, self.use_backend(), best=self.best)
        print_result(step=trainer.steps_done, utterances=len(trainer.held_out), **trainer.validate())


@dataclass(frozen=True, kw_only=True)
class Speak(TtsCommand):
    """Speaks a text into a wav file, with an exported voice."""

    text: str
    model: str = ""
    """Folder of an exported voice; empty: `model/` in the output folder."""
    output: Path = Path("speech.wav")
    vocoder: str = ""
    """`griffin-lim`, or the folder or Hugging Face name of a `SpeechT5HifiGan` that fits; empty: the one that
    was trained with the voice, or Griffin-Lim."""
    rate: float = 1.0
    """Speaking rate."""

    def run(self) -> None:
        from tpulab_recipes.audio import files
        from tpulab_recipes.audio.vocoders import load_vocoder
        from tpulab_recipes.english_tts.checkpoint_manager import load_final_model
        from tpulab_recipes.english_tts.generation import speak
        from tpulab_recipes.english_tts.vocoder import trained_vocoder

        require_output_file(self.output)
        backend: Any = self.use_backend()
        folder = self.model or str(Path(self.config.output_dir) / "model")
        model, config, processor = load_final_model(folder)
        vocoder = None if self.vocoder else trained_vocoder(folder, config)
        vocoder = vocoder or load_vocoder(self.vocoder.replace("griffin-lim", ""), config.mel)
        ids = processor.ids(processor.phonemes(self.text))
        (speech,) = speak(backend.prepare(model), backend, [ids], rate=self.rate)
        wave = vocoder(speech.mel).clip(-1, 1)
        files.save(self.output, wave, config.sample_rate)
        print_result(
            output=str(self.output),
            seconds=round(len(wave) / config.sample_rate, 3),
            frames=len(speech.mel),
            stopped=speech.stopped,
        )


@dataclass(frozen=True, kw_only=True)
class Export(TtsCommand):
    """Exports the newest checkpoint as a voice (safetensors and JSON), or its training step for the TPU
    compiler."""

    to: Path
    """Folder, or with `--step` a file."""
    best: bool = False
    """The best checkpoint instead of the newest."""
    step: bool = False
    """The training step of the longest bucket instead of the voice."""

    def run(self) -> None:
        from tpulab_recipes.english_tts.checkpoint_manager import save_final_model
        from tpulab_recipes.english_tts.data import batch_of
        from tpulab_recipes.english_tts.device_type import DeviceType
        from tpulab_recipes.english_tts.vocoder import VOCODER_FILE
        from tpulab_recipes.torch_training.export import export

        backend = self.use_backend()
        if self.step:
            c = self.config
            # As a TPU computes it, wherever it is exported.
            amp = DeviceType.TPU.amp if c.use_mixed_precision else "float32"
            trainer = _trainer(c, backend, amp=amp)
            rows = sorted(trainer.train_set, key=lambda one: len(one.mel))[: c.batch_size]
            fill = [rows[place % len(rows)] for place in range(c.batch_size)]
            if status := export(
                str(self.to), backend, trainer, batch_of(fill, max(c.frame_buckets), c), "english_tts"
            ):
                raise SystemExit(status)
            return
        trainer = _resumed(self.config, backend, best=self.best)
        place = save_final_model(self.to, trainer.model, self.config, trainer.processor)
        vocoder = Path(self.config.output_dir) / "model" / VOCODER_FILE
        if vocoder.exists() and vocoder.parent.resolve() != place.resolve():
            shutil.copy(vocoder, place)
        print_result(exported=str(place), step=trainer.steps_done)


@dataclass(frozen=True, kw_only=True)
class Profile(TtsCommand):
    """Times forward pass and update, and the time between batches, over a few epochs; nothing is saved."""

    rounds: int = 5
    """Timed runs of each program."""

    def run(self) -> None:
        never = 10**6  # the last epoch would be saved whatever the interval is
        config = self.config.but(
            num_epochs=never,
            save_every=never,
            validate_every=0,
            enable_interbatch_profiling=True,
            interbatch_report_interval=never,
        )
        backend = self.use_backend()
        trainer = _trainer(config, backend)
        trainer.on_figures.clear()
        phases = trainer.profile_training_steps(self.rounds)
        trainer.progress.start("profiling", 2 * trainer.steps_per_epoch)
        trainer.train_epoch()
        assert trainer.profiler is not None
        trainer.profiler.reset()  # without compilations
        trainer.train_epoch()
        trainer.progress.finish()
        trainer.profiler.print_report()
        found = trainer.get_profiling_report()
        report = trainer.memory.get_memory_report()
        trainer.close()
        print_result(
            **{f"{name}_ms": round(value, 3) for name, value in phases.items()},
            **{name: round(value, 3) for name, value in found.items()},
            memory_overhead_percent=report["overhead_percent"],
            memory_pressure=report["pressure"],
        )


COMMANDS = (Prepare, Train, Validate, Speak, Export, Profile)
#: Flags that the seed document names differently.
SEED_FLAGS = {"--no-mixed-precision": "--no-use-mixed-precision"}


def _trainer(config: EnglishTrainingConfig, backend: runtime.Backend, **options: Any) -> Any:
    from tpulab_recipes.english_tts.data import LJSpeechDataset
    from tpulab_recipes.english_tts.english_trainer import EnglishTrainer

    return EnglishTrainer.of(
        config, LJSpeechDataset(config, is_prepared=True), backend=backend, progress=Terminal(), **options
    )


def _resumed(config: EnglishTrainingConfig, backend: runtime.Backend, *, best: bool) -> Any:
    from tpulab_recipes.common.errors import CheckpointError
    from tpulab_recipes.english_tts.checkpoint_manager import BEST, load_checkpoint

    trainer = _trainer(config, backend)
    place = Path(config.output_dir) / BEST if best else Path(config.output_dir)
    found = load_checkpoint(place)
    if found is None:
        raise CheckpointError(f"{place} has no checkpoint; train first.")
    trainer.load_state(found)
    return trainer


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status (`exit_status`)."""
    given = sys.argv[1:] if argv is None else argv
    arguments = [SEED_FLAGS.get(each, each) for each in given]
    presets = {name: make() for name, make in PRESETS.items()}
    return exit_status(
        lambda: read_subcommand(COMMANDS, "english_tts", _ABOUT, presets, arguments, preset="lesson").run()
    )


if __name__ == "__main__":
    sys.exit(main())
