"""Small data folders for the voice recipes, written without the code that reads them."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

PHONES = ("sil", "HH", "AH0", "L", "OW1", "sil")


def wav(path: Path, seconds: float = 1.2, hz: float = 220, rate: int = 16_000) -> None:
    """A soft tone, 16 bits, mono."""
    tone = (6000 * math.sin(2 * math.pi * hz * n / rate) for n in range(int(seconds * rate)))
    data = b"".join(struct.pack("<h", int(one)) for one in tone)
    head = struct.pack("<IHHIIHH", 16, 1, 1, rate, 2 * rate, 2, 16)
    body = b"WAVEfmt " + head + b"data" + struct.pack("<I", len(data)) + data
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)


def text_grid(path: Path, labels: Sequence[str] = PHONES, seconds: float = 1.2, tier: str = "phones") -> None:
    ends = [seconds * (n + 1) / len(labels) for n in range(len(labels))]
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0", f"xmax = {seconds:.6f}"]
    lines += ["tiers? <exists>", "size = 1", "item []:", "    item [1]:", '        class = "IntervalTier"']
    lines += [f'        name = "{tier}"', "        xmin = 0", f"        xmax = {seconds:.6f}"]
    lines += [f"        intervals: size = {len(labels)}"]
    start = 0.0
    for number, (label, end) in enumerate(zip(labels, ends, strict=True), 1):
        lines += [f"        intervals [{number}]:", f"            xmin = {start:.6f}"]
        lines += [f"            xmax = {end:.6f}", '            text = "' + label.replace('"', '""') + '"']
        start = end
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def dia_folder(place: Path, texts: Mapping[str, str | bytes], seconds: float = 0.2) -> Path:
    (place / "audio_prompts").mkdir(parents=True, exist_ok=True)
    for number, (name, text) in enumerate(texts.items()):
        wav(place / "audio" / f"{name}.wav", seconds, 180 + 20 * number, 44_100)
        data = text if isinstance(text, bytes) else text.encode()
        (place / "audio_prompts" / f"{name}_prompt.txt").write_bytes(data)
    return place


def lj_clip(folder: Path, name: str, hz: float = 220) -> None:
    wav(folder / "wavs" / f"{name}.wav", hz=hz)
    text_grid(folder / "TextGrid" / f"{name}.TextGrid")


def lj_folder(folder: Path, rows: Sequence[str], encoding: str = "utf-8") -> Path:
    """LJSpeech's layout; each row of metadata.csv begins with the name of its clip."""
    for number, row in enumerate(rows):
        lj_clip(folder, row.split("|")[0], 180 + 20 * number)
    (folder / "metadata.csv").write_bytes("".join(f"{row}\n" for row in rows).encode(encoding))
    return folder


def clips_list(file: Path, texts: Mapping[str, str], encoding: str = "utf-8") -> Path:
    """A list of GPT-SoVITS, with its sounds beside it."""
    for number, name in enumerate(texts):
        wav(file.parent / name, hz=180 + 20 * number, rate=8000)
    lines = "".join(f"{name}|anna|en|{text}\n" for name, text in texts.items())
    file.write_bytes(lines.encode(encoding))
    return file
