"""Makes the recipe's data set from WordNet: definitions, and what kind of thing each one defines.

    python -m tpulab_recipes.intents.wordnet DATA_NOUN FOLDER

`DATA_NOUN` is WordNet's file `data.noun` (Debian: `wordnet-base`). The files have the format of banking77:
`train.csv` and `test.csv` with the columns `text` and `category`.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

#: WordNet's lexicographer files (lexnames(5WN)), which are the lesson's classes.
CATEGORIES = {
    4: "action",
    5: "animal",
    6: "artifact",
    8: "body part",
    11: "event",
    13: "food",
    14: "group",
    15: "place",
    17: "landform",
    18: "person",
    20: "plant",
    27: "substance",
}
#: Definitions that share this part of their words are variants of one ("a city in northern Texas").
SIMILAR = 0.6
#: offset, lexicographer file, part of speech; after the bar the definition, and examples behind a semicolon.
_LINE = re.compile(r"\d{8} (\d\d) n .*\| ([^;]*)")

Rows = list[tuple[str, str]]


def make_rows(lines: Iterable[str], *, train: int = 150, test: int = 40, seed: int = 77) -> tuple[Rows, Rows]:
    """Rows (text, category), `train` and `test` of each category. No definition of the test resembles one of
    its category in the training."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        match = _LINE.match(line)
        if match and int(match[1]) in CATEGORIES and _usable(text := match[2].strip()):
            found[CATEGORIES[int(match[1])]].append(text)
    shuffle = random.Random(seed)
    chosen: dict[str, Rows] = {"train": [], "test": []}
    for category, texts in sorted(found.items()):
        different: list[tuple[str, set[str]]] = []
        for text in shuffle.sample(texts, len(texts)):
            words = set(text.lower().split())
            if all(len(words & other) < SIMILAR * min(len(words), len(other)) for _, other in different):
                different.append((text, words))
            if len(different) == train + test:
                break
        rows = [(text, category) for text, _ in different]
        chosen["test"] += rows[:test]
        chosen["train"] += rows[test:]
    for rows in chosen.values():
        shuffle.shuffle(rows)
    return chosen["train"], chosen["test"]


def _usable(text: str) -> bool:
    # A remark in brackets or before a colon names the field that the word is of.
    return 4 <= len(text.split()) <= 16 and text.isascii() and not set(text) & set('():"')


def write(folder: Path, parts: tuple[Rows, Rows]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in zip(("train", "test"), parts, strict=True):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("text", "category"))
            writer.writerows(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_noun", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=150, help="definitions of each category")
    parser.add_argument("--test", type=int, default=40)
    options = parser.parse_args()
    lines = options.data_noun.read_text(encoding="latin-1").splitlines()
    write(options.folder, make_rows(lines, train=options.train, test=options.test))
