"""`python -m tpulab_recipes.dia COMMAND`: prepare, encode, finetune, evaluate, generate, export, memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tyro

from tpulab_recipes import runtime
from tpulab_recipes.common.command_line import (
    Command,
    exit_status,
    flags_over_file,
    print_result,
    print_training_result,
    read_subcommand,
)
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.common.inputs import checked_share
from tpulab_recipes.common.preparation import report_left_out, require_output_file
from tpulab_recipes.common.progress import Terminal
from tpulab_recipes.dia.config import (
    FULL_SIZE,
    Config,
    Sampling,
    config_from,
    named_preset,
    read_train_config,
)
from tpulab_recipes.torch_training.fit import Loop, OmittedLoop

_TOY = "a tiny random model for trials"
_ABOUT = "Dia, text to speech: fine-tuning on XLA devices."
PRESETS = {"small": Config(), "full-size": FULL_SIZE}


@dataclass(frozen=True, kw_only=True)
class DiaCommand(Command):
    config: tyro.conf.OmitArgPrefixes[Config] = field(default_factory=Config)
    num_cores: int = 0
    """Number of devices, as one program; 0: one device, or all with --spmd. XLA cannot select cores, so the
    number must be that of the machine."""

    def choose_backend(self) -> runtime.Backend:
        if self.num_cores < 2:
            return super().choose_backend()
        backend = runtime.use(self.backend, platform=self.platform, spmd=True)
        found = backend.world().global_devices
        if found != self.num_cores:
            raise ConfigError(
                "num_cores",
                f"{self.num_cores} devices requested, XLA has {found}; give --num-cores {found}, or none.",
            )
        return backend


@dataclass(frozen=True, kw_only=True)
class Prepare(DiaCommand):
    """Makes clips and texts of long recordings: finds speech, cuts at silence, transcribes, and encodes. Run
    the same command again to resume, or for recordings that were added."""

    recordings: str
    """Folder or gs://bucket/path with sound files, in folders or not, or hf://DATASET. NAME.txt beside
    NAME.wav is its text; in a folder named S2 the speaker is [S2]."""
    output: str
    """Folder or gs://bucket/path for clips, texts and codes; the --audio-folder of finetune."""
    whisper: str = "openai/whisper-small"
    """Folder or Hugging Face name of the model that transcribes."""
    language: str = ""
    """Language that is spoken, as Whisper names it (`en`); empty: it finds out."""
    seconds: float = 0.0
    """The longest clip; 0: what fits `audio_length`."""
    codec: str = ""
    """Folder or Hugging Face name of the DAC codec (`descript/dac_44khz`), to encode as well. Empty: leave
    that to encode or finetune."""

    def run(self) -> None:
        from tpulab_recipes.audio.codec import load_codec
        from tpulab_recipes.audio.recordings import check_recordings, prepare
        from tpulab_recipes.audio.slicing import histogram
        from tpulab_recipes.audio.transcripts import MAX_SECONDS, load_whisper
        from tpulab_recipes.common.preparation import require_writable
        from tpulab_recipes.dia.data import Layout, encode

        check_recordings(self.recordings, self.output)
        require_writable(self.output)
        codec = load_codec(self.codec)  # the tiny one has the published rate and hop
        frames = self.config.audio_length - Layout.published_overhead
        fits = min(frames * codec.hop / codec.sample_rate, MAX_SECONDS)
        if not 0 <= self.seconds <= fits:
            raise ConfigError(
                "seconds", f"{self.seconds} is not from 0 to {fits:.1f}; a longer clip needs --audio-length."
            )
        seconds = self.seconds or fits
        transcribe = load_whisper(self.whisper, self.language)
        print(f"clips of at most {seconds:.1f} s", flush=True)
        done, lengths, skipped = prepare(
            self.recordings,
            self.output,
            transcribe,
            made_by=f"{self.whisper} {self.language}",
            sample_rate=codec.sample_rate,
            seconds=seconds,
            progress=Terminal(),
        )
        print(histogram(lengths))
        left_out, encoded = skipped.reasons, 0
        if self.codec:
            window = {"frames": frames, "channels": codec.codebooks, "text_length": self.config.text_length}
            backend = self.use_backend()
            encoded, more = encode(self.output, self.output, codec, backend, **window, progress=Terminal())
            left_out = left_out + more.reasons
        report_left_out(self.output, left_out)
        minutes = round(sum(lengths) / 60, 2)
        print_result(
            recordings=done, clips=len(lengths), minutes=minutes, left_out=len(left_out), encoded=encoded
        )


@dataclass(frozen=True, kw_only=True)
class Encode(DiaCommand):
    """Encodes sound as codes, once: AUDIO_FOLDER/audio/NAME.wav to OUTPUT/encoded_audio/NAME.pt."""

    audio_folder: str
    """Folder, gs://bucket/path or hf://DATASET with sound and texts (docs/dia.md)."""
    output: str = ""
    """Output folder for codes and texts; empty: the audio folder."""
    codec: str = ""
    """Folder or Hugging Face name of the DAC codec (`descript/dac_44khz`). Empty: a tiny random one."""
    stereo: bool = False
    """18 channels: nine codebooks of the left side, then nine of the right."""

    def run(self) -> None:
        from tpulab_recipes.audio.codec import load_codec
        from tpulab_recipes.dia.data import Layout, encode

        backend = self.use_backend()
        codec = load_codec(self.codec)
        frames = self.config.audio_length - Layout.published_overhead
        window = {"frames": frames, "channels": codec.codebooks * (2 if self.stereo else 1)}
        window["text_length"] = self.config.text_length
        output = self.output or self.audio_folder
        done, skipped = encode(self.audio_folder, output, codec, backend, **window, progress=Terminal())
        # The audio folder itself stays as it is.
        report_left_out(f"{output}/encoded_audio", skipped.reasons)
        print_result(encoded=done, left_out=len(skipped.reasons), device=backend.describe())


@dataclass(frozen=True, kw_only=True)
class Finetune(DiaCommand):
    """Fine-tunes Dia on encoded clips, and encodes new sound first. Run the same command again to resume."""

    audio_folder: str = ""
    """Folder or gs://bucket/path with the clips (docs/dia.md)."""
    output_dir: str = ""
    """Folder or gs://bucket/path for checkpoints, figures (`logs/`) and, at the end, the model as
    transformers reads it (`model/`)."""
    train_config: str = ""
    """Training file of dia-finetuning (JSON); its values replace the preset's, and flags replace both."""
    held_out: float = 0.05
    """Share of clips kept for evaluation, chosen by a hash of their names."""
    codec: str = ""
    """See encode."""
    export: str = ""
    """Write the training step for the TPU compiler to this file instead of training."""
    loop: OmittedLoop = field(default_factory=Loop)

    def __post_init__(self) -> None:
        checked_share("held_out", self.held_out)

    def run(self) -> None:
        from tpulab_recipes.audio.codec import Codec, load_codec
        from tpulab_recipes.common.preparation import digest, split_by_name
        from tpulab_recipes.common.storage import Folder
        from tpulab_recipes.dia.data import encode, steps_per_epoch, train_batches
        from tpulab_recipes.dia.model import export_model, refuse_v0_1
        from tpulab_recipes.dia.trainer import Trainer
        from tpulab_recipes.torch_training.export import export as export_step
        from tpulab_recipes.torch_training.fit import Training, fit, require_rows

        config, folder, output, loop = self.config, self.audio_folder, self.output_dir, self.loop
        if self.train_config:
            preset = PRESETS[self.preset]
            config, places, idle = read_train_config(self.train_config, preset)
            config = flags_over_file(self.config, config, preset, self.given, idle)
            folder, output = folder or places.data, output or places.output
            loop = replace(loop, save_every=loop.save_every or places.save_every)
            loop = replace(loop, sample_every=loop.sample_every or places.demo_every)
        if not config.model and not (self.preset == "small" and "preset" in self.given):
            raise ConfigError(
                "preset",
                "no model is named; give --preset full-size for the published 1.6 B model, --model FOLDER "
                "for another, or --preset small for a tiny random one, for trials.",
            )
        if not (folder and output):
            raise ConfigError("", "Give --audio-folder and --output-dir, or a --train-config that has them.")
        loop.check(output)
        backend = self.use_backend()
        require_rows(config.batch_size, backend)
        backend.seed(config.seed)
        model, processor, layout = _model(config, self.codec)
        refuse_v0_1(model, "finetune")
        codec = load_codec(self.codec) if self.codec else Codec(processor.audio_tokenizer)
        left_out: list[str] = []
        if Folder(f"{folder}/audio").names(may_be_absent=True) or folder.startswith("hf://"):
            window = {"frames": config.audio_length - layout.overhead, "channels": len(layout.delay)}
            coded = f"{output}/data" if folder.startswith("hf://") else folder
            _, skipped = encode(
                folder, coded, codec, backend, **window, text_length=config.text_length, progress=Terminal()
            )
            folder, left_out = coded, skipped.reasons
        clips, skipped = _clips(folder, config, layout, processor)
        left_out += [each for each in skipped.reasons if each not in left_out]
        report_left_out(output, left_out)
        train, test = split_by_name(clips, [clip.name for clip in clips], self.held_out)
        in_epoch = steps_per_epoch(train, config, len(test))
        trainer = Trainer(config, model, backend, config.epochs * in_epoch)
        if self.export:
            batch = next(iter(train_batches(train, config, layout)))
            if status := export_step(self.export, backend, trainer, batch, "dia"):
                raise SystemExit(status)
            return
        print(f"{len(train)} clips to train on, {len(test)} held out, {in_epoch} steps an epoch", flush=True)

        def sample() -> str:
            return self.write_sample(trainer, codec, (test or train)[0], output)

        result = fit(
            Training(
                name=f"Dia, {config.model or _TOY}",
                trainer=trainer,
                batches=lambda first: train_batches(train, config, layout, first),
                in_epoch=in_epoch,
                epochs=config.epochs,
                output=output,
                data=f"{folder}, {len(train)} clips ({len(left_out)} left out); ",
                fingerprint=digest(*(part for one in clips for part in (one.name, one.text, one.codes))),
                warmup_steps=config.warmup_steps,
                remedy="Use a smaller batch_size, more grad_accum_steps, remat, lora_rank, or shard (with "
                "--spmd) over more chips.",
                evaluate=(lambda: {"held_out_loss": trainer.evaluate(test)}) if test else None,
                sample=sample if loop.sample_every else None,
            ),
            loop,
        )
        if backend.world().is_main:
            export_model(trainer.trained, processor, f"{output}/model")
        print_training_result(backend, steps=trainer.steps_done, left_out=len(left_out), **result)

    @staticmethod
    def write_sample(trainer: Any, codec: Any, clip: Any, output: str) -> str:
        """Speaks the text of a clip to OUTPUT/samples; all processes compute, and the main one writes."""
        import torch

        from tpulab_recipes.audio import files
        from tpulab_recipes.common.storage import Folder
        from tpulab_recipes.dia.generation import generate

        config = trainer.config
        sampling = Sampling(max_tokens=config.audio_length, text_length=config.text_length, seed=config.seed)
        codes = torch.as_tensor(generate(trainer.trained, trainer.backend, [clip.text], sampling)[0])
        name = f"{trainer.steps_done:08d}_{clip.name}.wav"
        if len(codes) == 0:
            return f"{name}: the model speaks no word yet"
        if not trainer.backend.world().is_main:
            return name
        codec.to(torch.device("cpu"))
        sound = codec.decode(codes.T[None].clamp(0, 1023).long())[0].numpy()
        with Folder(f"{output}/samples").make().write(name) as file:
            files.save(file, sound / max(1.0, float(abs(sound).max())), codec.sample_rate)
        return f"samples/{name}, {len(sound) / codec.sample_rate:.1f} s"


@dataclass(frozen=True, kw_only=True)
class Evaluate(DiaCommand):
    """Mean cross-entropy of a model on encoded clips."""

    audio_folder: str
    """Folder with encoded clips."""
    codec: str = ""
    """See encode."""

    def run(self) -> None:
        from tpulab_recipes.dia.trainer import Trainer

        backend = self.use_backend()
        model, processor, layout = _model(self.config, self.codec)
        clips, skipped = _clips(self.audio_folder, self.config, layout, processor)
        loss = Trainer(self.config, model, backend, 1).evaluate(clips)
        print_result(loss=loss, clips=len(clips), left_out=len(skipped.reasons), device=backend.describe())


@dataclass(frozen=True, kw_only=True)
class Generate(DiaCommand):
    """Speaks texts into wav files, one computed beside the other. A long text is divided and spoken in one
    voice."""

    text: tuple[str, ...]
    """One or several, with speakers as [S1] and [S2]."""
    output: Path = Path("speech.wav")
    """Of several texts: `speech_1.wav` and so on."""
    prompt: Path | None = None
    """Sound file with a voice to clone."""
    prompt_text: str = ""
    """Text of that sound."""
    codec: str = ""
    """See encode."""
    sampling: tyro.conf.OmitArgPrefixes[Sampling] = field(default_factory=lambda: Sampling(max_tokens=1024))

    def run(self) -> None:
        import numpy as np
        import torch

        from tpulab_recipes.audio import files
        from tpulab_recipes.audio.codec import Codec
        from tpulab_recipes.dia.generation import speak

        if not self.text:
            raise ConfigError("text", "Give at least one text.")
        if self.prompt and not self.prompt_text:
            raise ConfigError("prompt_text", "Give the words of the prompt; without them the voice is lost.")
        require_output_file(self.output)
        backend: Any = self.use_backend()
        if not self.config.model:
            print("note: without --model a tiny random model makes noise.", file=sys.stderr)
        model, processor, _ = _model(self.config, self.codec)
        codec = Codec(processor.audio_tokenizer)
        prompt: Any = None
        if self.prompt:
            wave = files.load(self.prompt, codec.sample_rate)
            whole = files.fitted(wave, codec.samples(len(wave) / codec.sample_rate))
            prompt = codec.encode(torch.from_numpy(whole)[None])[0].T
        if self.config.precision == "bfloat16":
            model = model.to(torch.bfloat16)
        model, sampling = backend.prepare(model), replace(self.sampling, seed=self.config.seed)

        def tokenize(text: str) -> Any:
            return processor.tokenizer(text)["input_ids"]

        voice = {"prompt": prompt, "prompt_text": self.prompt_text}
        began = time.perf_counter()
        spoken = speak(model, backend, tokenize, self.text, sampling, **voice)
        took, wavs, seconds = time.perf_counter() - began, [], 0.0
        for number, codes in enumerate(spoken, 1):
            if len(codes) == 0:
                raise ConfigError("text", "The model spoke no word; train it longer, or try another seed.")
            sound = codec.decode(torch.as_tensor(codes).T[None].clamp(0, 1023).long())[0].numpy()
            one = len(spoken) == 1
            wavs.append(self.output if one else self.output.with_stem(f"{self.output.stem}_{number}"))
            files.save(wavs[-1], sound / max(1.0, float(np.abs(sound).max())), codec.sample_rate)
            seconds += len(sound) / codec.sample_rate
        print_result(
            wav=str(wavs[0]) if len(wavs) == 1 else list(map(str, wavs)),
            seconds=round(seconds, 3),
            took_s=round(took, 1),
            device=backend.describe(),
        )


@dataclass(frozen=True, kw_only=True)
class Export(DiaCommand):
    """Exports a checkpoint (of this recipe, nari-labs' 0626 or transformers) for transformers."""

    output: str
    """Output folder, or gs://bucket/path."""
    checkpoints: str = ""
    """Output folder of finetune, to use its newest checkpoint with its settings. Empty: the model itself."""
    codec: str = ""
    """See encode."""

    def run(self) -> None:
        from tpulab_recipes.common.preparation import require_writable
        from tpulab_recipes.dia.model import export_model, refuse_v0_1
        from tpulab_recipes.dia.trainer import Trainer
        from tpulab_recipes.torch_training import CheckpointError, load_checkpoint

        require_writable(self.output)
        backend, config = runtime.use("cpu"), self.config
        found = load_checkpoint(self.checkpoints) if self.checkpoints else None
        if self.checkpoints and found is None:
            raise CheckpointError(f"{self.checkpoints} has no checkpoint; run finetune first.")
        if found is not None:
            config = config_from(found[1]["config"]).but(shard=False)
        model, processor, _ = _model(config, self.codec)
        refuse_v0_1(model, "export")
        if found is not None:
            trainer = Trainer(config, model, backend, 1)
            trainer.load_weights(found[1])
            model = trainer.trained
        export_model(model, processor, self.output)
        print_result(exported=self.output)


COMMANDS = (Prepare, Encode, Finetune, Evaluate, Generate, Export)


def _model(config: Config, codec: str = "") -> tuple[Any, Any, Any]:
    """Model, processor and layout."""
    from tpulab_recipes.dia.data import Layout
    from tpulab_recipes.dia.model import load_model, load_processor

    model = load_model(config.model, config.rule)
    return model, load_processor(config.model, codec), Layout.of(model.config)


def _clips(folder: str, config: Config, layout: Any, processor: Any) -> tuple[list[Any], Any]:
    from tpulab_recipes.dia.data import read_clips

    return read_clips(folder, config, layout, lambda text: processor.tokenizer(text)["input_ids"])


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status (`exit_status`)."""
    arguments = sys.argv[1:] if argv is None else argv

    def run() -> None:
        named = named_preset(arguments, tuple(PRESETS))
        command = read_subcommand(COMMANDS, "dia", _ABOUT, PRESETS, arguments, preset=named or "small")
        replace(command, given=command.given | {"preset"} if named else command.given).run()

    return exit_status(run)


if __name__ == "__main__":
    sys.exit(main())
