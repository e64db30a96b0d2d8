"""`python -m tpulab_recipes.gpt_sovits COMMAND`: prepares clips, trains, converts, speaks and exports."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

from tpulab_recipes.common.command_line import (
    Command,
    exit_status,
    flags_over_file,
    print_result,
    print_training_result,
    read_subcommand,
)
from tpulab_recipes.common.errors import CheckpointError, ConfigError, DataError
from tpulab_recipes.common.inputs import checked_count, checked_share, read_json
from tpulab_recipes.common.preparation import local_folder, report_left_out, require_output_file
from tpulab_recipes.common.progress import Terminal
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.gpt_sovits.config import (
    FULL_FIRST_STAGE,
    FULL_SIZE,
    SMALL,
    SPEECH,
    Config,
    FirstStageConfig,
    Places,
    config_from,
    read_s2_config,
)
from tpulab_recipes.torch_training.fit import Loop, OmittedLoop

_ABOUT = "GPT-SoVITS, a voice from a minute of sound: fine-tuning, conversion and speech on XLA devices."
PRESETS = {"small": SMALL, "speech": SPEECH, "full-size": FULL_SIZE}
SETTINGS = "settings.json"


@dataclass(frozen=True, kw_only=True)
class SovitsCommand(Command):
    preset: Literal["small", "speech", "full-size"] = "small"  # type: ignore[assignment]
    """The small lesson, a voice converter for a CPU (with --features whisper), or the published size; the
    other flags change single settings."""
    config: tyro.conf.OmitArgPrefixes[Config] = field(default_factory=Config)
    config_file: str = ""
    """An s2.json of the original; its values replace the preset's, and flags replace both."""
    cnhubert_base_dir: str = ""
    """Folder or name of chinese-hubert-base, for the full size. Empty: small features, for lessons."""
    features: Literal["hubert", "whisper"] = "hubert"
    """What that folder holds. A Whisper's encoder may stand in for HuBERT; base has 512 ssl_channels."""
    bert_pretrained_dir: str = ""
    """Folder or name of chinese-roberta-wwm-ext-large, for Chinese texts. Empty: none, for lessons."""

    def settings(self) -> tuple[Config, Places]:
        """The settings and places of the file, and the flags that were given."""
        if not self.config_file:
            return self.config, Places()
        preset = PRESETS[self.preset]
        config, places, idle = read_s2_config(self.config_file, preset)
        return flags_over_file(self.config, config, preset, self.given, idle), places


@dataclass(frozen=True, kw_only=True)
class Prepare(SovitsCommand):
    """Prepares a list of clips, or recordings, for training, once; run it again to resume."""

    inp_text: str = ""
    """Lines of wav|speaker|language|text."""
    recordings: str = ""
    """Instead of a list: a folder of sound files, which are cut at silence and transcribed. NAME.txt beside
    NAME.wav is its text."""
    whisper: str = "openai/whisper-small"
    """Folder or Hugging Face name of the model that transcribes recordings."""
    text_lang: str = "en"
    """Language of the recordings: en, zh or ja."""
    exp_dir: str = ""
    """Output folder, in the original's layout (docs/gpt-sovits.md)."""
    inp_wav_dir: str = ""
    """Folder of the wavs; empty: the paths in the list."""
    pretrained_s2G: str = ""
    """A generator, whose semantic tokens are then written too (6-name2semantic.tsv)."""

    def run(self) -> None:
        from tpulab_recipes.gpt_sovits import checkpoints, data

        config, places = self.settings()
        if bool(self.inp_text) == bool(self.recordings):
            raise ConfigError("", "Give either --inp-text or --recordings.")
        generator = self.pretrained_s2G or places.pretrained_s2G
        if generator:
            config.require_first_stage()
        folder = str(local_folder("exp_dir", _required(self.exp_dir or places.exp_dir, "exp_dir")))
        features = data.features_for(config, self.cnhubert_base_dir, self.features)
        listed, lost = self._listed(config, folder) if self.recordings else (Path(self.inp_text), [])
        done, reasons = data.prepare(
            listed,
            folder,
            config,
            features,
            inp_wav_dir=self.inp_wav_dir,
            text_features=data.text_features_for(config, self.bert_pretrained_dir),
            progress=Terminal(),
        )
        _report_skipped(reasons, folder, lost)
        if not done:
            first, hint = next(iter(reasons.values())), ""
            if any("No such file" in each for each in reasons.values()) and not self.inp_wav_dir:
                hint = " If the sound files are elsewhere, give --inp-wav-dir."
            raise DataError(f"nothing is prepared; the first of {len(reasons)}: {first}{hint}")
        if generator:
            clips, _ = data.read_clips(folder, config)
            data.write_tokens(folder, checkpoints.load_voice(generator, config), clips)
        left_out = len(lost) + len(reasons)
        print_result(prepared=done, left_out=left_out, exp_dir=folder, tokens=bool(generator))

    def _listed(self, config: Config, folder: str) -> tuple[Path, list[str]]:
        from tpulab_recipes.audio.transcripts import load_whisper
        from tpulab_recipes.gpt_sovits import data
        from tpulab_recipes.gpt_sovits.text import language_of

        language = language_of(self.text_lang)
        if len(language) > 2:
            raise ConfigError("text_lang", f"{language!r} is not the one language of the recordings.")
        return data.list_recordings(
            self.recordings,
            folder,
            config,
            load_whisper(self.whisper, language),
            made_by=f"{self.whisper} {language}",
            language=language,
            progress=Terminal(),
        )


@dataclass(frozen=True, kw_only=True)
class _Training(Command):
    save_every_epoch: int = 4
    """Epochs between two checkpoints with an evaluation."""
    held_out: float = 0.1
    """Share of clips held out for evaluation, chosen by a hash of their names."""
    loop: OmittedLoop = field(default_factory=Loop)

    def __post_init__(self) -> None:
        checked_share("held_out", self.held_out)
        checked_count("save_every_epoch", self.save_every_epoch)


@dataclass(frozen=True, kw_only=True)
class Train(_Training, SovitsCommand):
    """Fine-tunes generator and discriminators. Run the same command again to resume."""

    exp_dir: str = ""
    """Output folder of prepare."""
    output_dir: str = ""
    """Folder for checkpoints and, at the end, the voice (voice.pth). Empty: logs_s2_VERSION in exp_dir."""
    pretrained_s2G: str = ""
    """Published or trained generator to start from; empty: random weights."""
    pretrained_s2D: str = ""
    """Discriminators to start from."""

    def run(self) -> None:
        from tpulab_recipes.common.preparation import digest, split_by_name
        from tpulab_recipes.gpt_sovits import checkpoints, data
        from tpulab_recipes.gpt_sovits.trainer import Trainer
        from tpulab_recipes.torch_training.fit import Training, fit, require_rows

        config, places = self.settings()
        folder = str(local_folder("exp_dir", _required(self.exp_dir or places.exp_dir, "exp_dir")))
        output = str(local_folder("output_dir", self.output_dir or f"{folder}/logs_s2_{config.version}"))
        self.loop.check(output)
        clips, reasons = data.read_clips(folder, config)
        _report_skipped(reasons, output)
        train, test = split_by_name(clips, [clip.name for clip in clips], self.held_out)
        backend = self.use_backend()
        require_rows(config.batch_size, backend)
        backend.seed(config.seed)
        starts = (self.pretrained_s2G or places.pretrained_s2G, self.pretrained_s2D or places.pretrained_s2D)
        generator, discriminator = checkpoints.start_models(config, *starts)
        data.fit_tokens(generator, train, config.seed)
        in_epoch = data.steps_per_epoch(train, config)
        trainer = Trainer(config, generator, discriminator, backend, in_epoch)
        print(f"{len(train)} clips to train on, {len(test)} held out, {in_epoch} steps an epoch", flush=True)
        result = fit(
            Training(
                name=f"GPT-SoVITS {config.version}, from {starts[0] or 'random weights'}",
                trainer=trainer,
                batches=lambda first: data.train_batches(train, config, first),
                in_epoch=in_epoch,
                epochs=config.epochs,
                output=output,
                data=f"{folder}, {len(train)} clips ({len(reasons)} left out); ",
                fingerprint=digest(*(part for one in clips for part in (one.name, one.text, one.wav))),
                remedy="Use a smaller batch_size, buckets without the longest, remat, or more chips (with "
                "--spmd).",
                evaluate=lambda: (
                    {"held_out_mel_l1": trainer.evaluate(data.eval_batches(test, config))} if test else {}
                ),
                saves_at=lambda epoch: epoch % self.save_every_epoch == 0,
                shown=lambda row: (
                    f"G {row['loss/g/total']:.3f}, D {row['loss/d/total']:.3f}, mel "
                    f"{row['loss/g/mel'] / config.c_mel:.3f}"
                ),
            ),
            self.loop,
        )
        if backend.world().is_main:
            epoch, target = trainer.steps_done // in_epoch, Path(output)
            info = f"{epoch}epoch_{trainer.steps_done}iteration"
            checkpoints.export_voice(trainer.generator, config, target / "voice.pth", info)
            for name, model, optimizer in (
                ("G", trainer.generator, trainer.optimizer),
                ("D", trainer.discriminator, trainer.optimizer_d),
            ):
                checkpoints.export_training(model, config, target / f"{name}_latest.pth", epoch, optimizer)
            Folder(target).put(SETTINGS, json.dumps(asdict(config)))
        print_training_result(
            backend, steps=trainer.steps_done, output_dir=output, left_out=len(reasons), **result
        )


@dataclass(frozen=True, kw_only=True)
class TrainS1(_Training):
    """Trains the first stage, which speaks texts. Run the same command again to resume."""

    exp_dir: str
    """Output folder of prepare, with the semantic tokens that `--pretrained-s2G` adds."""
    output_dir: str = ""
    """Folder for checkpoints and, at the end, s1.ckpt. Empty: logs_s1_VERSION in exp_dir."""
    pretrained_s1: str = ""
    """Published or trained first stage to start from; empty: random weights."""
    first_stage: tyro.conf.OmitArgPrefixes[FirstStageConfig] = field(default_factory=FirstStageConfig)

    def run(self) -> None:
        from tpulab_recipes.common.preparation import digest, split_by_name
        from tpulab_recipes.gpt_sovits import s1_training as s1
        from tpulab_recipes.torch_training.fit import Training, fit, require_rows

        c = self.first_stage
        if self.preset == "full-size":
            typed = {each.name: getattr(c, each.name) for each in fields(c) if each.name in self.given}
            c = replace(FULL_FIRST_STAGE, **typed)
        folder = str(local_folder("exp_dir", self.exp_dir))
        output = str(local_folder("output_dir", self.output_dir or f"{folder}/logs_s1_{c.version}"))
        self.loop.check(output)
        c, model = s1.start_first_stage(c, self.pretrained_s1)
        spoken, reasons = s1.read_examples(folder, c)
        _report_skipped(reasons, output)
        train, test = split_by_name(spoken, [one.name for one in spoken], self.held_out)
        backend = self.use_backend()
        require_rows(c.batch_size, backend)
        backend.seed(c.seed)
        trainer, in_epoch = s1.FirstStageTrainer(c, model, backend), s1.steps_per_epoch(train, c)
        print(f"{len(train)} clips to train on, {len(test)} held out, {in_epoch} steps an epoch", flush=True)
        with_bert = any(one.bert is not None for one in train)
        result = fit(
            Training(
                name=f"GPT-SoVITS {c.version}, first stage, from {self.pretrained_s1 or 'random weights'}",
                trainer=trainer,
                batches=lambda first: s1.train_batches(train, c, first),
                in_epoch=in_epoch,
                epochs=c.epochs,
                output=output,
                data=f"{folder}, {len(train)} clips ({len(reasons)} left out); ",
                fingerprint=digest(*(part for one in spoken for part in (one.name, one.text, one.tokens))),
                remedy="Use a smaller batch_size with more grad_accum_steps, remat, or a smaller max_sec.",
                evaluate=lambda: trainer.evaluate(s1.eval_batches(test, c, with_bert)) if test else {},
                saves_at=lambda epoch: epoch % self.save_every_epoch == 0,
            ),
            self.loop,
        )
        voice = Path(output) / "s1.ckpt"
        if backend.world().is_main:
            s1.export_first_stage(trainer.model, c, voice, trainer.steps_done // in_epoch)
        print_training_result(
            backend, steps=trainer.steps_done, first_stage=str(voice), left_out=len(reasons), **result
        )


@dataclass(frozen=True, kw_only=True)
class TrainLinear(SovitsCommand):
    """Fits a linear voice to the clips of one person: on a CPU, in seconds, for convert alone."""

    exp_dir: str = ""
    """Output folder of prepare."""
    output_dir: str = ""
    """Folder for the voice (linear.safetensors). Empty: logs_linear in exp_dir."""

    def run(self) -> None:
        from tpulab_recipes.gpt_sovits import data, linear

        config, places = self.settings()
        folder = str(local_folder("exp_dir", _required(self.exp_dir or places.exp_dir, "exp_dir")))
        output = str(local_folder("output_dir", self.output_dir or f"{folder}/logs_linear"))
        clips, reasons = data.read_clips(folder, config)
        _report_skipped(reasons, output)
        fitted = linear.fit(clips, config)
        linear.save(fitted.weight, Path(output) / "linear.safetensors")
        Folder(output).put(SETTINGS, json.dumps(asdict(config)))
        print_result(
            voice=f"{output}/linear.safetensors",
            clips=len(clips),
            seconds=round(fitted.seconds, 1),
            explained=round(fitted.explained, 3),
            penalty=round(fitted.penalty, 4),
            left_out=len(reasons),
        )


@dataclass(frozen=True, kw_only=True)
class _Voiced(SovitsCommand):
    voice: Path
    """voice.pth, or any s2G checkpoint; uses the settings.json next to it, if there is one."""
    ref_wav: tuple[Path, ...]
    """One or more sound files of the target voice."""

    def voice_settings(self) -> Config:
        """The settings beside the voice, if there are any."""
        config, _ = self.settings()
        beside = self.voice.parent / SETTINGS
        if beside.exists() and not self.config_file:
            return config_from(read_json(beside, "voice"), beside)
        return config

    def loaded(self) -> tuple[Any, list[Any]]:
        """The voice, on the device, and the references' waves."""
        from tpulab_recipes.audio import files
        from tpulab_recipes.gpt_sovits.checkpoints import load_voice
        from tpulab_recipes.gpt_sovits.data import features_for, text_features_for
        from tpulab_recipes.gpt_sovits.voices import Voice

        config = self.voice_settings()
        generator = load_voice(self.voice, config)
        config = config.but(version=generator.version)
        waves = [files.load(each, config.sampling_rate) for each in self.ref_wav]
        features = features_for(config, self.cnhubert_base_dir, self.features)
        backend: Any = self.use_backend()
        texts = text_features_for(config, self.bert_pretrained_dir)
        return Voice(backend.prepare(generator), backend, config, features, texts), waves


@dataclass(frozen=True, kw_only=True)
class _FromText(_Voiced):
    ref_text: str
    """Text of the (first) reference."""
    prompt_lang: str = "en"
    """Language of the reference's text."""
    pretrained_s1: Path
    """Checkpoint of the first stage (.ckpt)."""
    max_sec: float = 54.0
    """Maximum length of the sound of a sentence in seconds."""

    @property
    def most_ids(self) -> int:
        if not 0 < self.max_sec < math.inf:
            raise ConfigError("max_sec", f"{self.max_sec} is not a length in seconds.")
        return max(1, int(25 * self.max_sec))

    def loaded_stage(self, voice: Any) -> Any:
        from tpulab_recipes.gpt_sovits.s1 import load_first_stage

        voice.config.require_first_stage()
        return voice.backend.prepare(load_first_stage(self.pretrained_s1))


@dataclass(frozen=True, kw_only=True)
class _Speaking(_Voiced):
    output: Path = Path("speech.wav")

    def loaded(self) -> tuple[Any, list[Any]]:
        require_output_file(self.output)
        return super().loaded()

    def written(self, began: float, wave: Any, rate: int, device: str) -> None:
        from tpulab_recipes.audio import files

        took = time.perf_counter() - began
        files.save(self.output, wave / max(1.0, abs(wave).max()), rate)
        print_result(
            wav=str(self.output),
            seconds=round(len(wave) / rate, 3),
            took_s=round(took, 1),
            device=device,
        )


@dataclass(frozen=True, kw_only=True)
class Convert(_Speaking):
    """Speaks a recording in another voice. Needs no first stage."""

    voice: Path
    """voice.pth, or any s2G checkpoint, or linear.safetensors of train-linear; uses the settings.json next to
    it, if there is one."""
    ref_wav: tuple[Path, ...] = ()
    """One or more sound files of the target voice. A linear voice needs none."""
    source: Path
    """Sound file to convert."""
    text: str = ""
    """Text of that sound, or phonemes in braces, for a clearer result."""
    text_lang: str = "en"
    """Language of the text: en, zh, ja, or auto for each part's own."""

    def run(self) -> None:
        from tpulab_recipes.audio import files
        from tpulab_recipes.gpt_sovits.text import language_of, phonemes_of

        if self.voice.suffix == ".safetensors":
            self._convert_linear()
            return
        if not self.ref_wav:
            raise ConfigError("ref_wav", "give a sound file of the target voice.")
        phonemes = phonemes_of(self.text, language_of(self.text_lang)) if self.text else ["_"]
        voice, references = self.loaded()
        source, began = files.load(self.source, voice.config.sampling_rate), time.perf_counter()
        wave = voice.convert(source, references, phonemes=phonemes, seed=voice.config.seed)
        self.written(began, wave, voice.config.sampling_rate, voice.backend.describe())

    def _convert_linear(self) -> None:
        from tpulab_recipes.audio import files
        from tpulab_recipes.gpt_sovits import linear
        from tpulab_recipes.gpt_sovits.data import features_for

        if self.ref_wav or self.text:
            raise ConfigError("voice", "a linear voice takes no --ref-wav and no --text.")
        require_output_file(self.output)
        config = self.voice_settings()
        weight = linear.load(self.voice, config)
        features = features_for(config, self.cnhubert_base_dir, self.features)
        source, began = files.load(self.source, config.sampling_rate), time.perf_counter()
        wave = linear.LinearVoice(weight, config, features).convert(source)
        self.written(began, wave, config.sampling_rate, "host CPU")


@dataclass(frozen=True, kw_only=True)
class Speak(_FromText, _Speaking):
    """Speaks a text: the first stage writes semantic tokens, the second speaks them."""

    text: str
    """Sentences, or phonemes in braces."""
    text_lang: str = "en"
    """Language of the text: en, zh, ja, or auto for each part's own."""
    text_split_method: str = "cut5"
    """cut0 to cut5 of the original: never, after 4 pieces, after 50 characters, at 。, at ., at all marks."""
    sentences_at_once: int = 1
    """Pieces that the first stage writes at once."""
    top_k: int = 15
    top_p: float = 1.0
    temperature: float = 1.0
    repetition_penalty: float = 1.35
    speed: float = 1.0

    def run(self) -> None:
        from tpulab_recipes.gpt_sovits.s1 import Sampling
        from tpulab_recipes.gpt_sovits.text import language_of, phonemes_of

        languages = language_of(self.text_lang), language_of(self.prompt_lang)
        for text, language in zip((self.text, self.ref_text), languages, strict=True):
            phonemes_of(text, language)
        voice, references = self.loaded()
        sampling = Sampling(
            self.top_k,
            self.top_p,
            self.temperature,
            self.repetition_penalty,
            self.most_ids,
            voice.config.seed,
        )
        stage, began = self.loaded_stage(voice), time.perf_counter()
        waves = voice.read_aloud(
            stage,
            self.text,
            references[0],
            self.ref_text,
            sampling,
            language=languages[0],
            reference_language=languages[1],
            speed=self.speed,
            method=self.text_split_method,
            batch=self.sentences_at_once,
        )
        whole = np.concatenate(list(waves))
        self.written(began, whole, voice.config.sampling_rate, voice.backend.describe())


@dataclass(frozen=True, kw_only=True)
class Serve(_FromText):
    """Answers `/tts` on this computer, as the original's api_v2 does, until Ctrl-C. A request can name
    another reference in the folder of the first, with its text."""

    port: int = 9880
    """Port on 127.0.0.1; 0: any that is free."""

    def run(self) -> None:
        from tpulab_recipes.audio import files
        from tpulab_recipes.common.inputs import name_within
        from tpulab_recipes.gpt_sovits.serve import VoiceServer, Wanted
        from tpulab_recipes.gpt_sovits.text import language_of, phonemes_of

        own_language = language_of(self.prompt_lang)
        phonemes_of(self.ref_text, own_language)
        voice, references = self.loaded()
        voice.check_reference(references[0])
        stage, rate = self.loaded_stage(voice), voice.config.sampling_rate

        def speak_text(wanted: Wanted) -> Iterator[np.ndarray]:
            reference, spoken, language = references[0], self.ref_text, own_language
            if wanted.reference:
                if not wanted.known:
                    raise ConfigError("prompt_text", "give the text of that reference.")
                reference = files.load(self.ref_wav[0].parent / name_within(wanted.reference), rate)
                spoken, language = wanted.known, wanted.known_language
            return voice.read_aloud(
                stage,
                wanted.text,
                reference,
                spoken,
                wanted.sampling,
                language=wanted.language,
                reference_language=language,
                speed=wanted.speed,
                method=wanted.method,
                batch=wanted.batch,
                pause=wanted.pause,
            )

        with VoiceServer(self.port, speak_text, self.most_ids, rate) as server:
            print(f"speaking at {server.address}?text=…; Ctrl-C ends it", flush=True)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                print(file=sys.stderr)


@dataclass(frozen=True, kw_only=True)
class Export(SovitsCommand):
    """Writes the newest checkpoint of train as the original's exported voice."""

    output: Path
    checkpoints: str
    """Output folder of train."""

    def run(self) -> None:
        import torch

        from tpulab_recipes.gpt_sovits import checkpoints
        from tpulab_recipes.torch_training import load_checkpoint

        found = load_checkpoint(self.checkpoints)
        if found is None:
            raise CheckpointError(f"{self.checkpoints} has no checkpoint; run train first.")
        config = Config(**found[1]["config"])
        models = checkpoints.make_models(config)
        torch.nn.ModuleDict(zip("gd", models, strict=True)).load_state_dict(found[1]["model"])
        checkpoints.export_voice(models[0], config, self.output, f"0epoch_{found[0]}iteration")
        print_result(exported=str(self.output))


COMMANDS = (Prepare, Train, TrainS1, TrainLinear, Convert, Speak, Serve, Export)


def _required(value: str, name: str) -> str:
    if not value:
        raise ConfigError(name, f"give --{name.replace('_', '-')}, or an s2.json that has it.")
    return value


def _report_skipped(reasons: dict[str, str], folder: str, earlier: Sequence[str] = ()) -> None:
    """`earlier`: reasons that were already printed."""
    rows = [f"{name}: {reason}" for name, reason in reasons.items()]
    for row in rows:
        print(f"left out: {row}", file=sys.stderr)
    report_left_out(folder, [*earlier, *rows])


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status (`exit_status`)."""
    arguments = sys.argv[1:] if argv is None else argv
    return exit_status(lambda: read_subcommand(COMMANDS, "gpt_sovits", _ABOUT, PRESETS, arguments).run())


if __name__ == "__main__":
    sys.exit(main())
