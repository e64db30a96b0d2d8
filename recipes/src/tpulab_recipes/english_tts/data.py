"""Texts and sound to batches: LJSpeech's layout, TextGrids of the Montreal Forced Aligner, 96 ARPA symbols,
and buckets of length, each of which is one shape.

A data folder has `metadata.csv` (`NAME|text|normalised text`), `wavs/NAME.wav` or `audio/NAME.wav`, and
`TextGrid/NAME.TextGrid` with a tier `phones`. `prepare` turns it once into `features/NAME.npz` and
`statistics.json`; training reads only those.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.audio import english, files
from tpulab_recipes.audio.alignments import frames_of, read_text_grid
from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.inputs import name_within, read_json, read_lines
from tpulab_recipes.common.preparation import (
    Ledger,
    Skipped,
    computed_ahead,
    digest,
    local_folder,
    split_by_name,
)
from tpulab_recipes.common.progress import Progress, Silent
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.english_tts.config_english import EnglishTrainingConfig

PAD, UNKNOWN, SILENCE = "<pad>", "<unk>", "<sil>"
_VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW"
_CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH"
PUNCTUATION = tuple(".,!?;:'\"-")
#: A symbol's number is its place; padding is 0. Vowels without stress, then with 0, 1 and 2.
SYMBOLS: tuple[str, ...] = (
    PAD,
    UNKNOWN,
    SILENCE,
    *(vowel + stress for vowel in _VOWELS.split() for stress in ("", "0", "1", "2")),
    *_CONSONANTS.split(),
    *PUNCTUATION,
)
#: What aligners write for silence, and for noise that is no speech.
_SILENT = {"", "sil", "sp", "<eps>", "silence"}
_NOISE = {"spn", "<unk>", "unk"}
_HEADERS = {"file_name", "filename", "file", "id", "name", "wav", "audio", "path"}
#: In the output folder while it is being prepared; it names the data folder.
PREPARING = "preparing.json"


class PhonemeProcessor:
    """Symbols to numbers and back, and text to phonemes. `trained`: the symbols in a voice's training data;
    empty: unknown."""

    def __init__(self, symbols: Sequence[str] = SYMBOLS, trained: Collection[str] = ()) -> None:
        self.symbols, self.trained = tuple(symbols), frozenset(trained)
        self._numbers = {symbol: number for number, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def ids(self, phonemes: Sequence[str]) -> NDArray[np.int32]:
        """Int32[phoneme]. Raises `DataError` that names a symbol that does not exist."""
        numbers = []
        for phoneme in phonemes:
            name = _symbol_of(phoneme)
            if name not in self._numbers:
                raise DataError(f"there is no symbol {phoneme!r}; the {len(self)} symbols are ARPABET's.")
            numbers.append(self._numbers[name])
        return np.asarray(numbers, np.int32)

    def names(self, ids: Any) -> list[str]:
        return [self.symbols[number] for number in ids]

    def phonemes(self, text: str) -> list[str]:
        """Of an English text, with silence at both ends: as written in braces (`{HH AH0}`), else as
        `audio.english` reads it. Punctuation is a pause, and of the trained symbols the nearest are taken.
        Raises `DataError` for a text without words and for a sound that the voice has not learned."""
        spoken = (SILENCE, *english.phonemes_of(text), SILENCE)
        chosen = [self._nearest(_symbol_of(each)) for each in spoken]
        if set(chosen) == {SILENCE}:
            raise DataError(f"the text {text!r} has no words.")
        return [
            each for before, each in zip(["", *chosen], chosen, strict=False) if not before == each == SILENCE
        ]

    def _nearest(self, phoneme: str) -> str:
        """The symbol itself if it was trained, else a pause for punctuation, or the vowel with another
        stress."""
        if phoneme in PUNCTUATION:
            return SILENCE
        if not self.trained or phoneme in self.trained or phoneme == SILENCE:
            return phoneme
        base = phoneme.rstrip("012")
        near = [base + stress for stress in ("1", "0", "2", "") if base + stress in self.trained]
        if not near:
            raise DataError(f"this voice was never trained on {phoneme}; train it on texts that have it.")
        return near[0]


def _symbol_of(phoneme: str) -> str:
    plain = phoneme.strip()
    if plain.lower() in _SILENT:
        return SILENCE
    if plain.lower() in _NOISE:
        return UNKNOWN
    return plain if plain in SYMBOLS else english.arpabet_of_phone(plain)


@dataclass(frozen=True)
class Utterance:
    name: str
    text: str
    phonemes: NDArray[np.int32]
    """Int32[phoneme]."""
    durations: NDArray[np.int32]
    """Int32[phoneme], in frames, at least 1 each."""
    mel: NDArray[np.float32]
    """Float32[frame, mel]: natural logarithm."""
    wave: NDArray[np.int16] | None = None
    """Int16[sample], `hop_length` a frame; None: not read (`read_wave`)."""


def read_utterance(
    folder: Path, name: str, text: str, c: EnglishTrainingConfig, processor: PhonemeProcessor, mel_of: Any
) -> Utterance:
    """One utterance of a data folder. Raises `DataError` that names the file and what is wrong with it."""
    import torch

    sound = _sound_of(folder, name)
    if sound is None:
        raise DataError(f"wavs/{name}.wav is missing.")
    wave = files.load(sound, c.sample_rate)
    intervals = read_text_grid(folder / "TextGrid" / f"{name}.TextGrid")
    seconds, aligned = len(wave) / c.sample_rate, intervals[-1][2]
    if abs(seconds - aligned) > c.alignment_tolerance:
        raise DataError(
            f"{name} is misaligned: its sound has {seconds:.2f} s and its TextGrid {aligned:.2f} s; align it "
            "again."
        )
    wave, intervals = trimmed(wave, intervals, c)
    frames = -(-len(wave) // c.hop_length)
    wave = files.fitted(wave, max(frames * c.hop_length, c.n_fft))
    try:
        marks = [label for label, _, _ in intervals if label.strip() in PUNCTUATION]
        if marks:
            raise DataError(f"{marks[0]!r} is punctuation, and no phone of an alignment.")
        phonemes = processor.ids([label for label, _, _ in intervals])
        durations = frames_of([end for _, _, end in intervals], c.frame_seconds, frames)
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
    with torch.no_grad():
        mel = mel_of(torch.from_numpy(wave)[None])[0].clamp(-11.5, 0).T.numpy()
    stored = np.rint(wave[: frames * c.hop_length] * 32_767).astype(np.int16)
    return Utterance(name, text, phonemes, durations, mel[:frames].copy(), stored)


def trimmed(
    wave: NDArray[np.float32], intervals: list[tuple[str, float, float]], c: EnglishTrainingConfig
) -> tuple[NDArray[np.float32], list[tuple[str, float, float]]]:
    """A recording with at most `edge_silence` before and after its speech, as loud as the others; and its
    intervals."""
    first, last = intervals[0], intervals[-1]
    quiet = [each[0].strip().lower() in _SILENT for each in (first, last)]
    start = max(0.0, first[2] - c.edge_silence) if quiet[0] and len(intervals) > 1 else 0.0
    end = min(last[2], last[1] + c.edge_silence) if quiet[1] else last[2]
    if start or end < last[2]:
        wave = wave[round(start * c.sample_rate) : round(end * c.sample_rate)]
        intervals = [(label, max(0.0, a - start), min(b, end) - start) for label, a, b in intervals]
    level = float(np.sqrt(np.mean(np.square(wave, dtype=np.float64))))
    if c.loudness and level:
        wave = wave * np.float32(min(10 ** (c.loudness / 20) / level, 1 / float(np.abs(wave).max())))
    return wave, intervals


def prepare(
    data_dir: str, output_dir: str, c: EnglishTrainingConfig, progress: Progress | None = None
) -> dict[str, Any]:
    """Writes `features/` and `statistics.json` into `output_dir`, and returns the statistics.

    An empty `data_dir` is the built-in corpus, written beside them. Unusable files are skipped or stop the
    preparation (`on_bad_file`), and are named. Unchanged clips are not computed again. Raises `DataError`.
    """
    from tpulab_recipes.audio.mel import MelSpectrogram

    output, progress = local_folder("output_dir", output_dir), progress or Silent()
    folder = Path(data_dir) if data_dir else write_built_in_corpus(output / "corpus", c)
    skipped = Skipped()
    rows = read_metadata(folder, skipped, refuse=c.on_bad_file == "refuse")
    features = Folder(output / "features").make()
    # Written last: an unfinished preparation does not look complete, and training can continue it.
    Folder(output).remove("statistics.json")
    Folder(output).put(PREPARING, json.dumps({"data_dir": str(folder.resolve())}))
    ledger = Ledger(features)
    made_by = [*_sound_settings(c), c.alignment_tolerance, c.edge_silence, c.loudness, "wave"]
    processor, mel_of = PhonemeProcessor(), MelSpectrogram(c.mel)
    names, frames, count = [], 0, np.zeros(len(processor), np.int64)
    total, squares = np.zeros(c.n_mels), np.zeros(c.n_mels)
    progress.start("preparing", len(rows))

    def compute(row: tuple[str, str]) -> tuple[Utterance, dict[str, Any] | None]:
        return _computed(folder, *row, c, features, ledger, made_by, processor, mel_of)

    for (name, _), coming in computed_ahead(compute, rows):
        try:
            one, made_of = coming.result()
            if made_of is not None:
                _write_features(one, features, ledger, made_of)
            if bucket_of(one, c) is None:
                longest = max(c.frame_buckets)
                raise DataError(
                    f"{name}: {len(one.mel)} frames and {len(one.phonemes)} phonemes (at most {longest} and "
                    f"{c.phonemes_of(longest)} fit the longest of frame_buckets)."
                )
        except DataError as error:
            if c.on_bad_file == "refuse":
                raise
            skipped.add(str(error))
        else:
            names.append(name)
            frames += len(one.mel)
            total += one.mel.sum(0, dtype=np.float64)
            squares += np.square(one.mel, dtype=np.float64).sum(0)
            count += np.bincount(one.phonemes, minlength=len(processor))
        progress.advance(1)
    progress.finish()
    if not names:
        raise DataError(f"{folder} has no utterance that can be used ({len(skipped.reasons)} were left out).")
    mean = total / frames
    statistics = {
        "names": names,
        "left_out": skipped.reasons,
        "data_dir": str(folder.resolve()),
        "frames": frames,
        "seconds": round(frames * c.frame_seconds, 3),
        "mel_mean": mean.tolist(),
        "mel_std": np.sqrt(np.maximum(squares / frames - mean**2, 1e-4)).tolist(),
        "symbols": {processor.symbols[each]: int(count[each]) for each in np.flatnonzero(count)},
        "mel": _sound_settings(c),
    }
    Folder(output).put("statistics.json", json.dumps(statistics))
    Folder(output).remove(PREPARING)
    return statistics


def ensure_prepared(c: EnglishTrainingConfig, progress: Progress, *, built_in: bool) -> None:
    """Prepares what training needs: the data folder that is given, or the one whose preparation was
    interrupted. `built_in`: the built-in corpus was named. Raises `DataError` rather than train
    on other data than meant."""
    output = local_folder("output_dir", c.output_dir)
    data_dir, marker = c.data_dir, output / PREPARING
    if data_dir and not Path(data_dir).is_dir():
        raise DataError(f"the data folder {data_dir} does not exist.")
    if not data_dir and marker.exists():
        data_dir = str(read_json(marker)["data_dir"])
        print(f"resuming the preparation of {data_dir}, which was interrupted.", flush=True)
    elif not data_dir and (output / "statistics.json").exists():
        return
    elif not data_dir and not built_in:
        raise DataError(
            f"{output} is not prepared: name your data with --data-dir, or take the built-in sentences "
            "with --corpus-voice hibari."
        )
    prepare(data_dir, str(output), c, progress)


class LJSpeechDataset(Sequence[Utterance]):
    """The utterances of `data_dir`, prepared in `output_dir` if they are not yet: `train`, `held_out`, and
    the `statistics` of the sound. Raises `DataError`."""

    def __init__(
        self, config: EnglishTrainingConfig, progress: Progress | None = None, *, is_prepared: bool = False
    ) -> None:
        if not is_prepared:
            ensure_prepared(config, progress or Silent(), built_in=False)
        self.utterances, self.statistics = read_features(config.output_dir, config)
        self.train, self.held_out = split(self.utterances, config)

    def __len__(self) -> int:
        return len(self.utterances)

    @overload
    def __getitem__(self, place: int) -> Utterance: ...
    @overload
    def __getitem__(self, place: slice) -> list[Utterance]: ...
    def __getitem__(self, place: int | slice) -> Utterance | list[Utterance]:
        return self.utterances[place]


def read_metadata(folder: Path, skipped: Skipped, *, refuse: bool = False) -> list[tuple[str, str]]:
    """Name and text of each row of metadata.csv: the last column that is not empty. Rows that cannot be used
    are left out by line, or refused. A header is passed over."""
    rows: dict[str, str] = {}
    file = folder / "metadata.csv"
    for number, row in read_lines(file):
        first, *texts = row.split("|")
        try:
            text = next((each.strip() for each in reversed(texts) if each.strip()), "")
            name = name_within(first, rows, ".wav")
            if number == 1 and name.lower() in _HEADERS and _sound_of(folder, name) is None:
                continue
            if not text:
                raise DataError(f"it has no text: {row!r}.")
        except DataError as error:
            if refuse:
                raise DataError(f"{file}, line {number}: {error}") from error
            skipped.add(f"metadata.csv, line {number}: {error}")
        else:
            rows[name] = text
    if not rows:
        raise DataError(f"{file} has no row `NAME|text` that can be used.")
    return list(rows.items())


def _sound_of(folder: Path, name: str) -> Path | None:
    places = (
        folder / part / f"{name}{end}" for part in ("wavs", "audio") for end in (".wav", ".WAV", ".flac")
    )
    return next((each for each in places if each.exists()), None)


def _computed(
    folder: Path,
    name: str,
    text: str,
    c: EnglishTrainingConfig,
    features: Folder,
    ledger: Ledger,
    made_by: list[Any],
    processor: PhonemeProcessor,
    mel_of: Any,
) -> tuple[Utterance, dict[str, Any] | None]:
    """An utterance, and a digest of its inputs; None when `features/NAME.npz` was made from the same files
    and settings."""
    target = Path(features.path(f"{name}.npz"))
    sound, grid = _sound_of(folder, name), folder / "TextGrid" / f"{name}.TextGrid"
    made_of: dict[str, Any] = {"text": text, "by": made_by}
    for kind, file in (("sound", sound), ("grid", grid)):
        if file is not None and file.is_file():
            made_of[kind] = digest(file.read_bytes())
    row = ledger.row(name)
    if row is not None and target.exists() and row == {"name": name, **made_of}:
        with contextlib.suppress(DataError):
            return _stored(target, name), None
    return read_utterance(folder, name, text, c, processor, mel_of), made_of


def _write_features(one: Utterance, features: Folder, ledger: Ledger, made_of: Mapping[str, Any]) -> None:
    ledger.begin(one.name, [(features, f"{one.name}.npz")], **made_of)
    target = Path(features.path(f"{one.name}.npz"))
    with Folder(target.parent).make().write(target.name) as file_:
        text, wave = np.asarray(one.text), np.asarray(one.wave)
        np.savez(file_, text=text, phonemes=one.phonemes, durations=one.durations, mel=one.mel, wave=wave)


def _stored(file: Path, name: str) -> Utterance:
    try:
        with np.load(file) as stored:
            parts = {key: stored[key] for key in ("phonemes", "durations", "mel")}
            return Utterance(name, str(stored["text"]), **parts)
    except Exception as error:  # numpy has no common class for files that are torn.
        raise DataError(f"features/{name}.npz cannot be read ({error}); prepare again.") from error


def read_wave(output_dir: str, name: str) -> NDArray[np.float32]:
    """Float32[sample] in [-1, 1] of a prepared utterance, `hop_length` a frame. Raises `DataError`."""
    with np.load(Path(output_dir) / "features" / f"{name}.npz") as stored:
        if "wave" not in stored:
            raise DataError(f"features/{name}.npz has no sound; prepare again.")
        wave: NDArray[np.float32] = stored["wave"].astype(np.float32) / np.float32(32_767)
        return wave


def _sound_settings(c: EnglishTrainingConfig) -> list[float]:
    return [c.sample_rate, c.n_fft, c.hop_length, c.win_length, c.n_mels, c.f_min, c.f_max]


def write_built_in_corpus(folder: Path, c: EnglishTrainingConfig) -> Path:
    """The built-in sentences in one voice, at the rate of these settings. Raises `MissingPackage`."""
    from tpulab_recipes.audio import corpus, spoken

    settings: Any
    write: Callable[[Path, Any], int]
    if c.corpus_voice == "formants":
        settings, write = (
            corpus.CorpusSettings(c.corpus_count, hop=c.hop_length, speakers=1),
            corpus.write_corpus,
        )
    else:
        settings, write = spoken.SpokenSettings(c.corpus_count), spoken.write_spoken_corpus
    settings = replace(settings, sample_rate=c.sample_rate)
    marker = folder / "corpus.json"
    print(f"the data: {c.corpus_count} built-in sentences, voice {c.corpus_voice}, in {folder}", flush=True)
    if not marker.exists() or read_json(marker) != vars(settings):
        write(folder, settings)
    return folder


def read_features(output_dir: str, c: EnglishTrainingConfig) -> tuple[list[Utterance], dict[str, Any]]:
    """The utterances that `prepare` wrote, and its statistics. Raises `DataError` where there are none, and
    where they were made with other settings of sound."""
    output = Path(output_dir)
    if not (output / "statistics.json").exists():
        was, data = "no such preparation", "YOUR_DATA"
        if (output / PREPARING).exists():
            was, data = "its preparation was interrupted", read_json(output / PREPARING)["data_dir"]
        raise DataError(
            f"{output} is not prepared ({was}); run this first: python -m tpulab_recipes.english_tts prepare "
            f"--data-dir {shlex.quote(data)} --output-dir {shlex.quote(str(output))}"
        )
    statistics = read_json(output / "statistics.json")
    made = _sound_settings(c)
    if statistics["mel"] != made:
        raise DataError(f"{output} was prepared with the settings of sound {statistics['mel']}, not {made}.")
    return [_stored(output / "features" / f"{name}.npz", name) for name in statistics["names"]], statistics


def split(
    utterances: Sequence[Utterance], c: EnglishTrainingConfig
) -> tuple[list[Utterance], list[Utterance]]:
    """Training and held-out utterances; the same names and seed give the same split."""
    names = [one.name for one in utterances]
    return split_by_name(utterances, names, c.validation_split, "validation_split", c.seed)


def bucket_of(one: Utterance, c: EnglishTrainingConfig) -> int | None:
    """The shortest bucket, in frames, that holds it; None: none does."""
    fits = (
        each for each in c.frame_buckets if len(one.mel) <= each and len(one.phonemes) <= c.phonemes_of(each)
    )
    return next(fits, None)


def batch_of(
    rows: Sequence[Utterance | None], frames: int, c: EnglishTrainingConfig
) -> dict[str, NDArray[Any]]:
    """Arrays of a bucket's shape: `phonemes` and `durations`, Int32[B, P]; `mel`, Float32[B, T, M], natural
    logarithm; `phoneme_lengths` and `mel_lengths`, Int32[B]. None is a row that only fills up."""
    count, size = len(rows), c.phonemes_of(frames)
    batch = {
        "phonemes": np.zeros((count, size), np.int32),
        "durations": np.zeros((count, size), np.int32),
        "mel": np.zeros((count, frames, c.n_mels), np.float32),
        "phoneme_lengths": np.zeros(count, np.int32),
        "mel_lengths": np.zeros(count, np.int32),
    }
    for place, one in enumerate(rows):
        if one is None:
            continue
        symbol_count, frame_count = len(one.phonemes), len(one.mel)
        batch["phonemes"][place, :symbol_count], batch["durations"][place, :symbol_count] = (
            one.phonemes,
            one.durations,
        )
        batch["mel"][place, :frame_count] = one.mel
        batch["phoneme_lengths"][place], batch["mel_lengths"][place] = symbol_count, frame_count
    return batch


def batches(
    utterances: Sequence[Utterance], c: EnglishTrainingConfig, *, epoch: int | None
) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Every utterance once, bucket by bucket, in an order of the seed and the epoch; None: in theirs, for
    validation. The last batch of a bucket is filled up with rows that do not count."""
    order: Sequence[int] = range(len(utterances))
    random = None if epoch is None else np.random.default_rng([c.seed, 2, epoch])
    if random is not None:
        order = random.permutation(len(utterances)).tolist()
    buckets: dict[int, list[Utterance]] = {}
    for number in order:
        frames = bucket_of(utterances[number], c)
        if frames is not None:
            buckets.setdefault(frames, []).append(utterances[number])
    plan = [
        (frames, found[first : first + c.batch_size])
        for frames, found in sorted(buckets.items())
        for first in range(0, len(found), c.batch_size)
    ]
    if random is not None:
        plan = [plan[each] for each in random.permutation(len(plan))]
    for frames, rows in plan:
        fill: list[Utterance | None] = [None] * (c.batch_size - len(rows))
        yield batch_of([*rows, *fill], frames, c)


def batches_per_epoch(utterances: Sequence[Utterance], c: EnglishTrainingConfig) -> int:
    """Raises `DataError` when there is none."""
    counts: dict[int | None, int] = {}
    for one in utterances:
        frames = bucket_of(one, c)
        counts[frames] = counts.get(frames, 0) + 1
    counts.pop(None, None)
    if not counts:
        raise DataError("no utterance fits a bucket; give a longer one in frame_buckets.")
    return sum(-(-count // c.batch_size) for count in counts.values())
