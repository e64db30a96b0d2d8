"""Clips and prompts of long recordings: speech is found, cut at silence and transcribed.

A recording that is not longer than a clip and has its text beside it (`NAME.txt`, or the column `text` of a
dataset) is taken as it is. `audio/prepared.jsonl` notes what each recording was cut into: an interrupted
preparation continues, and texts that were corrected, or clips that were deleted, stay so.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.audio import files
from tpulab_recipes.audio.encoding import KNOWN_TAG
from tpulab_recipes.audio.slicing import RATE, clips_of, is_speech, speech_probabilities
from tpulab_recipes.audio.sources import PROMPT, SOUNDS, dataset_rows
from tpulab_recipes.audio.transcripts import Transcriber
from tpulab_recipes.common.errors import ConfigError, DataError, StorageError
from tpulab_recipes.common.inputs import decoded
from tpulab_recipes.common.preparation import Ledger, Skipped, computed_ahead, digest
from tpulab_recipes.common.progress import Progress, Silent
from tpulab_recipes.common.storage import Folder

_LEDGER = "prepared.jsonl"
#: A part of the settings of a clip: a change here recreates all clips.
_VERSION = "1"


@dataclass(frozen=True)
class Recording:
    name: str
    """Prefix of the names of its clips, before their number."""
    shown: str
    read: Callable[[], bytes]
    text: Callable[[], str]
    """Its transcript, if there is one."""
    speaker: str


@dataclass(frozen=True)
class _Cut:
    recording: Recording
    sound: str
    waves: list[NDArray[np.float32]]
    text: str
    """Text of the whole recording, where it is one clip."""


def prepare(
    place: str,
    output: str,
    transcribe: Transcriber,
    *,
    made_by: str,
    sample_rate: int,
    seconds: float,
    tagged: bool = True,
    progress: Progress | None = None,
) -> tuple[int, list[float], Skipped]:
    """Cuts what `output` does not have yet into `audio/NAME_0001.wav` and `audio_prompts/`. Returns how many
    recordings that were, the lengths of all clips there, and what was left out.

    Args:
        made_by: describes `transcribe`; a change recreates all clips.
        seconds: the longest clip.
        tagged: whether a text begins with its speaker, [S1] or [S2].
    """
    check_recordings(place, output)
    skipped, progress = Skipped(), progress or Silent()
    found = list(_recordings(place, skipped))
    audio, prompts = Folder(f"{output}/audio").make(), Folder(f"{output}/audio_prompts").make()
    ledger, by = Ledger(audio, _LEDGER), digest(_VERSION, made_by, str(sample_rate), f"{seconds:.3f}")
    done, lengths = 0, []
    progress.start("preparing", len(found))

    def cut_if_new(recording: Recording) -> _Cut | Exception | None:
        try:
            data = recording.read()
            row = ledger.row(recording.name)
            if row and row.get("done") and (row["sound"], row["by"]) == (digest(data), by):
                return None
            return _cut(recording, data, sample_rate, seconds)
        except (DataError, StorageError) as error:
            return error

    # One recording is read and cut while the one before it is transcribed.
    for recording, coming in computed_ahead(cut_if_new, found, 1):
        cut = coming.result()
        if isinstance(cut, Exception):
            skipped.add(f"{recording.shown}: {cut}")
        elif cut is not None:
            row = ledger.row(recording.name) or {}
            if row.get("done") and row["sound"] == cut.sound and _corrected(prompts, row["clips"]):
                print(
                    f"note: {recording.shown}: its texts were corrected, and stay as they are; delete "
                    f"audio_prompts/{recording.name}_* and {_LEDGER} to transcribe it again.",
                    flush=True,
                )
            else:
                done += _write(cut, transcribe, audio, prompts, ledger, by, sample_rate, skipped, tagged)
        row = ledger.row(recording.name) or {}
        lengths += [
            length for name, (_, length) in row.get("clips", {}).items() if prompts.exists(name + PROMPT)
        ]
        progress.advance(1)
    progress.finish()
    if not lengths:
        raise DataError(f"{place}: no clip could be made of its {len(found)} recording(s).")
    return done, lengths, skipped


def check_recordings(place: str, output: str) -> None:
    """Raises `ConfigError` where one folder is the other, or below it: results would be read again; and
    `DataError` or `StorageError` where there is nothing to prepare: before a model is loaded for it."""
    if place.startswith("hf://"):
        return
    ours, theirs = (PurePosixPath(Folder(each).path("x")).parent for each in (output, place))
    if ours == theirs or ours in theirs.parents or theirs in ours.parents:
        raise ConfigError(
            "output", f"{output} and the recordings in {place} are not apart; give another folder."
        )
    if next(_recordings(place, Skipped()), None) is None:
        raise DataError(f"{place} has no recordings ({', '.join(SOUNDS)}).")


def _recordings(place: str, skipped: Skipped) -> Iterator[Recording]:
    """Sorted by name. In a folder named S2 the speaker is [S2]."""
    if place.startswith("hf://") or Folder(place).exists("dataset_info.json"):
        for number, (written, opened) in enumerate(dataset_rows(place)):
            name = f"clip_{number:06d}"
            yield Recording(name, f"row {number}", partial(_all_of, opened), partial(str, written), "S1")
        return
    folder, taken = Folder(place), {}  # type: tuple[Folder, dict[str, str]]
    names = folder.tree()
    for file in (each for each in names if each.lower().endswith(SOUNDS)):
        parts = PurePosixPath(file).with_suffix("").parts
        capitals, beside = (str(PurePosixPath(file).with_suffix(end)) for end in (".TXT", ".txt"))
        name, beside = "_".join(parts), capitals if capitals in names else beside
        if name in taken:
            skipped.add(f"{file} has the same name as {taken[name]}; rename one.")
            continue
        taken[name] = file
        text: Callable[[], str] = partial(_text_of, folder, beside) if beside in names else str
        yield Recording(name, file, partial(folder.get, file), text, "S2" if "S2" in parts[:-1] else "S1")


def _all_of(opened: Callable[[], Any]) -> bytes:
    with opened() as file:
        return bytes(file.read())


def _text_of(folder: Folder, name: str) -> str:
    return decoded(folder.get(name), name).strip()


def _cut(recording: Recording, data: bytes, sample_rate: int, seconds: float) -> _Cut:
    wave, text = files.load(io.BytesIO(data), sample_rate, shown=recording.shown), recording.text().strip()
    if text and len(wave) <= seconds * sample_rate:
        return _Cut(recording, digest(data), [wave], text)
    if text:
        print(
            f"note: {recording.shown}: its text is not used, because it is longer than a clip.",
            file=sys.stderr,
        )
    low = files.resample(wave, sample_rate, RATE)
    clips = clips_of(low, is_speech(speech_probabilities(low)), seconds)
    if not clips:
        raise DataError("nobody speaks in it.")
    waves = [wave[round(start * sample_rate) : round(end * sample_rate)] for start, end in clips]
    return _Cut(recording, digest(data), waves, "")


def _write(
    cut: _Cut,
    transcribe: Transcriber,
    audio: Folder,
    prompts: Folder,
    ledger: Ledger,
    by: str,
    sample_rate: int,
    skipped: Skipped,
    tagged: bool,
) -> int:
    recording, sound = cut.recording, {}  # type: tuple[Recording, dict[str, NDArray[np.float32]]]
    texts = (
        [cut.text]
        if cut.text
        else transcribe([files.resample(each, sample_rate, RATE) for each in cut.waves])
    )
    clips: dict[str, list[Any]] = {}
    prompt_of: dict[str, str] = {}
    for number, (wave, text) in enumerate(zip(cut.waves, texts, strict=True), 1):
        name = recording.name if cut.text else f"{recording.name}_{number:04d}"
        if not any(map(str.isalnum, text)):
            skipped.add(f"{name}: no words were recognised in its {len(wave) / sample_rate:.1f} s.")
            continue
        complete = not tagged or KNOWN_TAG.match(text)
        prompt_of[name] = text if complete else f"[{recording.speaker}] {text}"
        sound[name], clips[name] = wave, [digest(prompt_of[name]), round(len(wave) / sample_rate, 3)]
    old = {*clips, *(ledger.row(recording.name) or {}).get("clips", {})}
    results = [(folder, name + end) for folder, end in ((audio, ".wav"), (prompts, PROMPT)) for name in old]
    made_of = {"sound": cut.sound, "by": by, "clips": clips}
    ledger.begin(recording.name, results, **made_of)
    for name, wave in sound.items():
        with audio.write(f"{name}.wav") as file:
            files.save(file, wave / max(1.0, float(np.abs(wave).max())), sample_rate)
        prompts.put(name + PROMPT, prompt_of[name])
    ledger.begin(recording.name, [], **made_of, done=True)
    return 1


def _corrected(prompts: Folder, clips: dict[str, list[Any]]) -> bool:
    """Whether a text was edited since it was written."""
    there = [name for name in clips if prompts.exists(name + PROMPT)]
    return any(
        digest(prompts.get(name + PROMPT).decode("utf-8", "replace")) != clips[name][0] for name in there
    )
