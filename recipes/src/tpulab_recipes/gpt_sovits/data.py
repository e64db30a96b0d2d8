"""Clips from the original's `list` file and folder layout, and batches of few shapes that depend on the seed
and their number alone.

A list has lines `wav|speaker|language|text`. `prepare` writes what the original's own steps write, so either
can go on with the other's folder:

    2-name2text.txt         name, phonemes, phonemes of each Chinese character, text; separated by tabs
    3-bert/NAME.pt          BERT's states of a Chinese text (with a BERT), Float[channel, phoneme]
    4-cnhubert/NAME.pt      semantic features, Float[1, channel, frame]
    5-wav32k/NAME           the sound, 16 bits
    6-name2semantic.tsv     semantic tokens (with a generator)
    spec-FFT-HOP/NAME.npy   spectrograms, Float32[bin, frame]
    made.jsonl              what each was made of, so that a corrected text or sound is detected
    clips/, clips.list      clips of recordings, their texts and their list (`list_recordings`)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tpulab_recipes.audio import files
from tpulab_recipes.audio.mel import MelSettings, MelSpectrogram
from tpulab_recipes.audio.recordings import check_recordings
from tpulab_recipes.audio.recordings import prepare as cut_recordings
from tpulab_recipes.audio.sources import PROMPT, read_prompts
from tpulab_recipes.audio.transcripts import Transcriber
from tpulab_recipes.common.errors import CheckpointError, ConfigError, DataError
from tpulab_recipes.common.inputs import read_lines
from tpulab_recipes.common.preparation import Ledger, digest, same_file, stamp
from tpulab_recipes.common.progress import Progress, Silent
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.gpt_sovits.config import Config
from tpulab_recipes.gpt_sovits.text import Reading, language_of, numbers_of, read
from tpulab_recipes.torch_training.pretrained import loaded
from tpulab_recipes.torch_training.tensor_files import read_tensors

#: Minimum frames of silence after each clip: the style encoder's convolutions reach this far, so the bucket
#: changes nothing.
MARGIN = 4
#: Minimum seconds of a clip, as in the original. The longest bucket sets the maximum, 37.9 s at the
#: published size (54 s in the original).
MIN_S = 0.6
#: Maximum seconds of the clips that a recording is cut into: the longest allowed reference.
MAX_CUT_S = 10.0
#: Maximum number of frames that are clustered into semantic tokens.
MAX_CLUSTERED = 20_000
Features = Callable[[np.ndarray], np.ndarray]
TextFeatures = Callable[[Reading], np.ndarray | None]


@dataclass(frozen=True)
class Clip:
    name: str
    text: np.ndarray
    """Int64[symbol]."""
    ssl: np.ndarray
    """Float32[channel, frame]."""
    spec: np.ndarray
    """Float32[bin, frame]."""
    wav: np.ndarray
    """Float32[sample]."""

    @property
    def frames(self) -> int:
        return int(self.spec.shape[1])


def small_features(config: Config) -> Features:
    """Float32[channel, frame] of a wave at the settings' rate: cepstra of log-mels, normalised over the clip,
    so that the voice's average spectrum is gone. They stand for HuBERT in lessons."""
    rate, hop, half = config.sampling_rate, config.hop_length, config.ssl_channels // 2
    settings = MelSettings(rate, 2 * config.filter_length, hop, 3 * hop, max(20, half), 60.0, center=False)
    mel = MelSpectrogram(settings)
    angles = np.pi * np.outer(np.arange(half), np.arange(settings.n_mels) + 0.5) / settings.n_mels

    def features(wave: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            log_mel = mel(torch.from_numpy(np.float32(wave))[None])[0].numpy()
        # The first cepstra are the shape of the vocal tract; the ripple of the pitch is in those left out.
        cepstra = np.cos(angles) @ np.maximum(log_mel, -6.0)
        cepstra = (cepstra - cepstra.mean(1, keepdims=True)) / (cepstra.std(1, keepdims=True) + 1e-3)
        slopes = np.gradient(cepstra, axis=1)
        return np.concatenate([cepstra, slopes])[: config.ssl_channels].astype(np.float32)

    return features


def hubert_features(place: str, rate: int) -> Features:
    """HuBERT's last states for a wave at `rate`, as the original's `cnhubert`: `place` is a folder or name of
    a checkpoint (chinese-hubert-base). On the host: each wave has its own length, and would be a separate
    program."""
    from transformers import HubertModel

    model = loaded("cnhubert_base_dir", place, HubertModel.from_pretrained).eval()

    def features(wave: np.ndarray) -> np.ndarray:
        # The original's factor: at another loudness the states differ.
        low = files.resample(wave * np.float32(1145.14), rate, 16_000)
        with torch.no_grad():
            states = model(torch.from_numpy(low)[None]).last_hidden_state
        return np.asarray(states[0].T.numpy(), np.float32)

    return features


def whisper_features(place: str, rate: int) -> Features:
    """The last states of Whisper's encoder, 50 a second as HuBERT's: `place` is a folder or name of a
    checkpoint. A voice needs the same Whisper for training and conversion. Raises `ConfigError`."""
    from transformers import WhisperFeatureExtractor, WhisperModel

    kinds = WhisperFeatureExtractor, WhisperModel
    mels, model = (loaded("cnhubert_base_dir", place, kind.from_pretrained) for kind in kinds)
    encoder, window = model.encoder.eval(), mels.n_samples

    def features(wave: np.ndarray) -> np.ndarray:
        low, found = files.resample(wave, rate, 16_000), []
        for first in range(0, len(low), window):
            part = low[first : first + window]
            mel = mels(part, sampling_rate=16_000, return_tensors="pt").input_features
            with torch.no_grad():
                states = encoder(mel).last_hidden_state[0].numpy()
            # The rest is padding to 30 s.
            found.append(states[: -(-len(part) * len(states) // window)])
        return np.concatenate(found).T.astype(np.float32)

    return features


def bert_features(place: str) -> TextFeatures:
    """States of the third layer from the top of a BERT (chinese-roberta-wwm-ext-large; a folder or name),
    each Chinese character's repeated for its phonemes, Float32[channel, phoneme]; zeros in other parts, and
    None where nothing is Chinese. Raises `ConfigError`."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    kinds = AutoTokenizer, AutoModelForMaskedLM
    tokenizer, model = (loaded("bert_pretrained_dir", place, kind.from_pretrained) for kind in kinds)
    model.eval()

    def features(reading: Reading) -> np.ndarray | None:
        if not reading.chinese:
            return None
        found = np.zeros((model.config.hidden_size, len(reading.phonemes)), np.float32)
        for begun, text, counts in reading.chinese:
            with torch.no_grad():
                states = model(
                    **tokenizer(text, return_tensors="pt"), output_hidden_states=True
                ).hidden_states
            each = states[-3][0, 1:-1].float().numpy()
            if len(each) != len(counts):
                raise DataError(
                    f"{text!r} is {len(each)} tokens of this BERT, and not one for each character"
                )
            found[:, begun : begun + sum(counts)] = each.repeat(counts, 0).T
        return found

    return features


def no_text_features(_: Reading) -> None:
    """Zeros for every text."""


def text_features_for(config: Config, bert_pretrained_dir: str) -> TextFeatures:
    """BERT where there is a checkpoint. Without one, Chinese is refused by voices of the published size
    (`ConfigError`), and has zeros in lessons."""
    if bert_pretrained_dir:
        return bert_features(bert_pretrained_dir)
    if config.ssl_channels != 768:
        return no_text_features

    def needed(reading: Reading) -> None:
        if reading.chinese:
            raise ConfigError(
                "bert_pretrained_dir",
                "Chinese texts need BERT; give a folder of chinese-roberta-wwm-ext-large.",
            )

    return needed


def features_for(config: Config, cnhubert_base_dir: str, kind: str = "hubert") -> Features:
    """HuBERT, or a Whisper, where there is a checkpoint. Raises `ConfigError` where one is needed."""
    if cnhubert_base_dir:
        make = whisper_features if kind == "whisper" else hubert_features
        return make(cnhubert_base_dir, config.sampling_rate)
    if kind == "whisper":
        raise ConfigError("cnhubert_base_dir", "give the folder or name of a Whisper.")
    if config.ssl_channels == 768:
        raise ConfigError(
            "cnhubert_base_dir", "768 semantic features need HuBERT; give a folder of chinese-hubert-base."
        )
    return small_features(config)


def level(wave: np.ndarray) -> np.ndarray:
    """Half the wave as it is, half scaled to 0.95, as the original writes it."""
    loudest = max(float(np.abs(wave).max(initial=0)), 1e-9)
    return np.asarray(0.5 * wave + 0.5 * 0.95 * wave / loudest, np.float32)


def levelled(name: str, wave: np.ndarray, config: Config) -> np.ndarray:
    """`level`, or `ConfigError` for a wave that is too short."""
    if len(wave) <= config.filter_length:
        raise ConfigError(name, f"{len(wave)} samples are too short for a spectrum.")
    return level(wave)


def spectrogram(wave: np.ndarray, config: Config) -> np.ndarray:
    """Float32[bin, frame]."""
    with torch.no_grad():
        return np.asarray(MelSpectrogram(config.mel).magnitude(torch.from_numpy(wave)[None])[0].numpy())


@dataclass(frozen=True)
class Listed:
    """A line of a list."""

    number: int
    wav: str
    language: str
    text: str

    @property
    def name(self) -> str:
        """The file's own name: paths may be those of another machine."""
        return re.split(r"[/\\]", self.wav)[-1]


def read_list(file: str | Path, reasons: dict[str, str]) -> list[Listed]:
    """The lines `wav|speaker|language|text`; why others are left out goes into `reasons`. Raises `DataError`
    for a list without any, and for two files of one name, which would share one result."""
    found: dict[str, Listed] = {}
    for number, line in read_lines(file):
        parts = line.split("|", 3)
        one = Listed(number, parts[0].strip(), parts[-2].strip() if parts[2:] else "", parts[-1].strip())
        where = f"line {number}"
        if len(parts) != 4:
            reasons[where] = f"{file}, line {number}: it must be wav|speaker|language|text."
        elif not one.name or one.name in (".", ".."):
            reasons[where] = f"{file}, line {number}: {parts[0]!r} is no file."
        elif one.name not in found:
            found[one.name] = one
        elif found[one.name].wav == one.wav:
            reasons[where] = (
                f"{file}, line {number}: {one.wav} is there already, in line {found[one.name].number}."
            )
        else:
            other = found[one.name]
            raise DataError(
                f"{file}: {other.wav} (line {other.number}) and {one.wav} (line {number}) have one "
                "and the same name, by which results are named; rename one of them."
            )
    if not found:
        raise DataError(next(iter(reasons.values()), f"the list {file} is empty."))
    return list(found.values())


def list_recordings(
    recordings: str,
    exp_dir: str,
    config: Config,
    transcribe: Transcriber,
    *,
    made_by: str,
    language: str,
    progress: Progress | None = None,
) -> tuple[Path, list[str]]:
    """Cuts a folder of recordings into clips, transcribes them, and writes their list. Returns the list, and
    what was left out. A text is corrected in `clips/audio_prompts`. Raises `ConfigError` and `DataError`."""
    check_recordings(recordings, exp_dir)
    place = f"{exp_dir}/clips"
    _, _, skipped = cut_recordings(
        recordings,
        place,
        transcribe,
        made_by=made_by,
        sample_rate=config.sampling_rate,
        seconds=min(MAX_CUT_S, longest_s(config)),
        tagged=False,
        progress=progress,
    )
    names = sorted(name.removesuffix(PROMPT) for name in Folder(f"{place}/audio_prompts").names(PROMPT))
    lines = [
        f"clips/audio/{name}.wav|voice|{language}|{' '.join(text.split())}\n"
        for name, text in read_prompts(Folder(f"{place}/audio_prompts"), names, skipped)
    ]
    Folder(exp_dir).put("clips.list", "".join(lines))
    return Path(exp_dir) / "clips.list", skipped.reasons


def longest_s(config: Config) -> float:
    """Seconds of the longest clip that a bucket holds."""
    return (config.buckets[-1] - MARGIN) * config.hop_length / config.sampling_rate


def prepare(
    inp_text: str | Path,
    exp_dir: str | Path,
    config: Config,
    features: Features,
    *,
    inp_wav_dir: str = "",
    text_features: TextFeatures | None = None,
    progress: Progress | None = None,
) -> tuple[int, dict[str, str]]:
    """Writes the folder of a list, and returns how many clips it has, and why others were left out.

    An interrupted run resumes. Existing results stay, rows of the original's first step included,
    unless the text, the sound or the settings have changed. Wavs are searched in `inp_wav_dir`, else where
    the list gives, relative to it.
    """
    root, bar = Path(exp_dir), progress or Silent()
    reasons: dict[str, str] = {}
    listed, written = read_list(inp_text, reasons), read_rows(root)
    text_features = text_features or text_features_for(config, "")
    for place in _places(root, "any", config):
        place.parent.mkdir(parents=True, exist_ok=True)
    ledger, made_by = Ledger(Folder(root)), _made_by(config)
    bar.start("preparing", len(listed))
    used = 0
    for one in listed:
        bar.advance(1, one.name)
        try:
            row = _row_of(one, written.get(one.name), config.version)
            numbers_of(row[1].split(" "), config.version)
            place = Path(inp_wav_dir) / one.name if inp_wav_dir else Path(inp_text).parent / one.wav
            _prepare_bert(
                root / "3-bert" / f"{one.name}.pt", row, row != written.get(one.name), text_features
            )
            _prepare_sound(place, one, _places(root, one.name, config), config, features, ledger, made_by)
        except (ConfigError, DataError) as error:
            reasons[one.name] = str(error)
            written.pop(one.name, None)
            continue
        written[one.name] = row
        used += 1
    bar.finish()
    lines = ["\t".join(row) for row in written.values()]
    Folder(root).put("2-name2text.txt", "".join(f"{line}\n" for line in lines))
    return used, reasons


def _made_by(config: Config) -> list[int]:
    """Settings that results depend on beside those in the spectrograms' folder."""
    return [config.sampling_rate, config.filter_length, config.hop_length, config.ssl_channels]


def _prepare_bert(file: Path, row: list[str], changed: bool, text_features: TextFeatures) -> None:
    """Writes BERT's states of a row's text, unless they are there."""
    if changed:
        file.unlink(missing_ok=True)
    if file.exists() or not row[2].startswith("["):
        return
    counts = [int(each) for each in row[2].strip("[]").split(",")]
    states = text_features(Reading(row[1].split(" "), row[3], counts, [(0, row[3], counts)]))
    if states is not None:
        with Folder(file.parent).make().write(file.name) as opened:
            torch.save(torch.from_numpy(states), opened)


def _row_of(one: Listed, row: list[str] | None, version: str) -> list[str]:
    """Columns of 2-name2text.txt: the row that is there if it belongs to this text, else a new one. Raises
    `DataError` or `ConfigError` if the text has changed and its phonemes cannot be made."""
    if row is not None and _is_text_of(one.text, row[3]):
        return row
    try:
        found = read(one.text, language_of(one.language), version)
    except ConfigError as error:
        if row is None:
            raise
        raise DataError(
            f"2-name2text.txt has another text for it ({row[3]!r}), and of the one in the list "
            f"{str(error).partition(': ')[2]}"
        ) from error
    if row is not None:
        print(f"the text of {one.name} has changed.", file=sys.stderr, flush=True)
    text = found.text if found.counts else one.text
    return [one.name, " ".join(found.phonemes), str(found.counts), re.sub(r"\s", " ", text)]


def _is_text_of(text: str, normalised: str) -> bool:
    """Whether the last column of 2-name2text.txt, in which the original unifies punctuation and spells
    numbers, belongs to a text of the list."""
    there = re.sub(r"[\W_]+", "", normalised).casefold()
    letters = re.sub(r"[\W_]+", "", text).casefold()
    if letters == there or not re.search(r"\d", letters):
        return letters == there
    rest = iter(there)
    return all(letter in rest for letter in re.sub(r"\d", "", letters))


def _places(root: Path, name: str, config: Config) -> tuple[Path, Path, Path]:
    """Where a clip's sound, semantic features and spectrogram are."""
    spec = root / f"spec-{config.filter_length}-{config.hop_length}"
    return root / "5-wav32k" / name, root / "4-cnhubert" / f"{name}.pt", spec / f"{name}.npy"


def _prepare_sound(
    source: Path,
    one: Listed,
    targets: tuple[Path, Path, Path],
    config: Config,
    features: Features,
    ledger: Ledger,
    made_by: list[int],
) -> None:
    """Writes the targets of a clip, unless they are there and made of this sound with these settings."""
    row = ledger.row(one.name)
    there = all(each.exists() for each in targets)
    if source.exists() and source.resolve() == targets[0].resolve():
        raise DataError(f"{source} is in the output folder itself; prepare into another one.")
    # Without a row they are the original's own.
    unchanged = row is None or (row["by"] == made_by and (not source.exists() or same_file(row, source)))
    if there and unchanged:
        return
    wave = files.load(source, config.sampling_rate)
    seconds = len(wave) / config.sampling_rate
    longest = longest_s(config)
    if not MIN_S <= seconds <= longest:
        raise DataError(f"it lasts {seconds:.2f} s, not {MIN_S} to {longest:.1f} s; cut it")
    if float(np.abs(wave).max()) > 2.2:
        raise DataError("it is louder than 2.2 times full scale")
    made_of = {"sound": digest(source.read_bytes()), "stamp": stamp(source), "by": made_by}
    if there and row is not None:
        print(f"preparing {one.name} again: its sound or the settings have changed.", file=sys.stderr)
    ledger.begin(one.name, [(Folder(each.parent), each.name) for each in targets], **made_of)
    even = level(wave)
    even = even[: len(even) // config.hop_length * config.hop_length]
    ssl = features(even)
    if not np.isfinite(ssl).all():
        raise DataError("its semantic features are not finite")
    sound, hubert, spec = targets
    with Folder(spec.parent).write(spec.name) as file:
        np.save(file, spectrogram(even, config))
    with Folder(hubert.parent).write(hubert.name) as file:
        torch.save(torch.from_numpy(ssl)[None], file)
    with Folder(sound.parent).write(sound.name) as file:
        files.save(file, np.clip(even, -1, 1), config.sampling_rate)


def read_rows(root: Path) -> dict[str, list[str]]:
    """Columns of 2-name2text.txt by name: name, phonemes, phonemes of each word, text."""
    place = root / "2-name2text.txt"
    lines = read_lines(place) if place.exists() else []
    rows = [line.split("\t") for _, line in lines]
    return {row[0]: row for row in rows if len(row) == 4}


def write_tokens(exp_dir: str | Path, generator: Any, clips: Sequence[Clip]) -> None:
    """6-name2semantic.tsv: the semantic tokens of every clip, for training a first stage. The original's own
    first stage takes the first line for names of columns."""
    lines = ["item_name\tsemantic_audio"]
    for clip in clips:
        codes = generator.extract_latent(torch.from_numpy(clip.ssl)[None])[0, 0]
        lines.append(f"{clip.name}\t{' '.join(str(int(code)) for code in codes)}")
    Folder(exp_dir).put("6-name2semantic.tsv", "\n".join(lines))


def read_clips(exp_dir: str | Path, config: Config) -> tuple[list[Clip], dict[str, str]]:
    """The clips of a prepared folder by name, and why others were left out. Raises `DataError` for a folder
    without any."""
    root = Path(exp_dir)
    clips, reasons = [], {}
    for name, row in sorted(read_rows(root).items()):
        sound, hubert, spec = _places(root, name, config)
        if not (hubert.exists() and sound.exists()):
            reasons[name] = "4-cnhubert or 5-wav32k lacks it"
            continue
        try:
            wave = files.load(sound, config.sampling_rate)
            shape = _stored_spectrogram(spec) if spec.exists() else spectrogram(wave, config)
            ssl = read_tensors(hubert)[0].float().numpy()
        except (CheckpointError, DataError) as error:
            reasons[name] = f"{error} Or remove it and prepare again."
            continue
        text = np.asarray(numbers_of(row[1].split(" "), config.version), np.int64)
        clip = Clip(name, text, fitted_features(ssl, shape.shape[1]), shape, wave)
        if reason := _unfit(clip, config):
            reasons[name] = reason
        else:
            clips.append(clip)
    if not clips:
        why = f" The first: {next(iter(reasons.values()))}." if reasons else " Run prepare first."
        raise DataError(f"{root} has no clip that can be used.{why}")
    return clips, reasons


def _stored_spectrogram(file: Path) -> np.ndarray:
    try:
        found: np.ndarray = np.load(file)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{file} cannot be read ({error}).") from error
    return found


def fitted_features(ssl: np.ndarray, frames: int) -> np.ndarray:
    """Cut, or its last frame repeated: HuBERT gives one or two frames fewer than the spectrogram has."""
    return np.pad(ssl[:, :frames], ((0, 0), (0, max(0, frames - ssl.shape[1]))), mode="edge")


def _unfit(clip: Clip, config: Config) -> str:
    if clip.ssl.shape[0] != config.ssl_channels:
        return f"it has {clip.ssl.shape[0]} semantic features, and ssl_channels is {config.ssl_channels}"
    if clip.frames < config.segment_frames:
        return f"it has {clip.frames} frames; a segment is {config.segment_frames}"
    if clip.frames + MARGIN > config.buckets[-1]:
        return f"it has {clip.frames} frames; the longest bucket holds {config.buckets[-1] - MARGIN}"
    if len(clip.text) > config.text_length:
        return f"it has {len(clip.text)} phonemes; text_length is {config.text_length}"
    return ""


def rows(
    clips: Sequence[Clip],
    config: Config,
    frames: int,
    random: np.random.Generator,
    count: int | None = None,
    uniform: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """A batch, padded to `frames`, with the random numbers of its step: every replica has the same, and a
    resumed run too. Of the sound, it has the segment that is judged, whose place `uniform` (Float[clip] in
    [0, 1), drawn if not given) decides here and on the device. `counts` is 0 for padding rows."""
    size, length = len(clips), config.text_length
    batch: dict[str, np.ndarray] = {
        "ssl": np.zeros((size, config.ssl_channels, frames), np.float32),
        "spec": np.zeros((size, config.filter_length // 2 + 1, frames), np.float32),
        "spec_lengths": np.zeros(size, np.int64),
        "segment": np.zeros((size, 1, config.segment_size), np.float32),
        "text": np.zeros((size, length), np.int64),
        "text_lengths": np.zeros(size, np.int64),
        "noise": random.standard_normal((size, config.inter_channels, frames), np.float32),
        "uniform": random.random(size, np.float32) if uniform is None else np.array(uniform, np.float32),
        "counts": (np.arange(size) < (size if count is None else count)).astype(np.float32),
    }
    for row, clip in enumerate(clips):
        room = max(1, clip.frames - config.segment_frames + 1)
        start = min(int(batch["uniform"][row] * np.float32(room)), room - 1)
        # In the middle of its interval, so that rounding on the device cannot select the next place.
        batch["uniform"][row] = (start + 0.5) / room
        segment = clip.wav[start * config.hop_length :][: config.segment_size]
        batch["ssl"][row, :, : clip.frames] = clip.ssl
        batch["spec"][row, :, : clip.frames] = clip.spec
        batch["segment"][row, 0, : len(segment)] = segment
        batch["text"][row, : len(clip.text)] = clip.text
        batch["spec_lengths"][row], batch["text_lengths"][row] = clip.frames, len(clip.text)
    return batch


def bucket_of(clip: Clip, config: Config) -> int:
    """The smallest bucket that holds the clip and its margin."""
    return next(each for each in config.buckets if clip.frames + MARGIN <= each)


def shuffled_batches(sizes: Sequence[Any], rows: int, seed: Sequence[int]) -> list[tuple[Any, list[int]]]:
    """(size, numbers of clips) of each step of an epoch, from the size that each clip is padded to; the last
    batch of a size is filled with clips from its beginning."""
    random, batches = np.random.default_rng(seed), []
    for size in sorted(set(sizes)):
        members = [number for number, each in enumerate(sizes) if each == size]
        order = [members[each] for each in random.permutation(len(members))]
        for first in range(0, len(order), rows):
            batches.append((size, [order[each % len(order)] for each in range(first, first + rows)]))
    return [batches[each] for each in random.permutation(len(batches))]


def _epoch(clips: Sequence[Clip], config: Config, epoch: int) -> list[tuple[int, list[int]]]:
    """(bucket, clips) of each step."""
    return shuffled_batches(
        [bucket_of(clip, config) for clip in clips], config.batch_size, [config.seed, epoch]
    )


def steps_per_epoch(clips: Sequence[Clip], config: Config) -> int:
    return len(_epoch(clips, config, 0))


def train_batches(clips: Sequence[Clip], config: Config, first: int = 0) -> Iterator[dict[str, np.ndarray]]:
    """All batches of the epochs from number `first` on."""
    in_epoch = steps_per_epoch(clips, config)
    for epoch in range(first // in_epoch, config.epochs):
        for place, (bucket, numbers) in enumerate(_epoch(clips, config, epoch)):
            step = epoch * in_epoch + place
            if step >= first:
                random = np.random.default_rng([config.seed, 1, step])
                yield rows([clips[number] for number in numbers], config, bucket, random)


def eval_batches(clips: Sequence[Clip], config: Config) -> Iterator[dict[str, np.ndarray]]:
    """Every clip once, in batches of the training's shapes; padding rows do not count."""
    random = np.random.default_rng(config.seed)
    for bucket in config.buckets:
        members = [clip for clip in clips if bucket_of(clip, config) == bucket]
        for first in range(0, len(members), config.batch_size):
            part = members[first : first + config.batch_size]
            filled = part + [part[0]] * (config.batch_size - len(part))
            yield rows(filled, config, bucket, random, len(part))


def fit_tokens(generator: Any, clips: Sequence[Clip], seed: int) -> None:
    """k-means of the clips' features, for a generator that has no semantic tokens yet (a random one). A
    published generator has them, and they stay frozen."""
    book = generator.quantizer.vq.layers[0]._codebook
    if bool(book.inited):
        return
    with torch.no_grad():
        weight = generator.ssl_proj.weight
        # Random features would separate related frames, so the mean of the frames of a token is kept.
        weight.copy_(torch.eye(len(weight))[:, :, None].expand_as(weight) / weight.shape[2])
        generator.ssl_proj.bias.zero_()
        found = [generator.ssl_proj(torch.from_numpy(clip.ssl)[None])[0].T for clip in clips]
        table, random = torch.cat(found), np.random.default_rng(seed)
        if len(table) > MAX_CLUSTERED:
            # Not the first clips: they are sorted by name, and so often by speaker.
            table = table[random.choice(len(table), MAX_CLUSTERED, replace=False)]
        order = torch.from_numpy(random.permutation(len(table)))
        book.initialise(table, order, 20)
