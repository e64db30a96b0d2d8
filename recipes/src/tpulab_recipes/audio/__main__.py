"""Writes the synthetic corpus: `python -m tpulab_recipes.audio FOLDER --help`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from tpulab_recipes.audio.corpus import CorpusSettings, write_corpus
from tpulab_recipes.common.command_line import parse, print_result
from tpulab_recipes.common.errors import RecipeError


@dataclass(frozen=True)
class WriteCorpus:
    """Writes sentences, their sound and exact phoneme durations, in the formats of the voice recipes."""

    folder: tyro.conf.Positional[Path]
    """Output folder; existing files in it are overwritten."""
    settings: tyro.conf.OmitArgPrefixes[CorpusSettings]


def main(argv: list[str]) -> int:
    default = WriteCorpus(tyro.MISSING, CorpusSettings())
    options = parse(WriteCorpus, "audio", argv, default=default)
    try:
        samples = write_corpus(options.folder, options.settings)
    except RecipeError as error:
        print(error, file=sys.stderr)
        return 2
    seconds = round(samples / options.settings.sample_rate, 3)
    print_result(folder=str(options.folder), utterances=options.settings.count, seconds=seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
