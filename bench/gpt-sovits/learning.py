"""Trains the small model of GPT-SoVITS (`SMALL`) on the synthetic corpus, and prints a JSON line: the mel
distance of held-out clips, and how near converted sentences are to each voice. Run by `main.mjs` in the
environment `torch-xla`, in plain PyTorch on one thread.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from typing import Any

import torch
from tpulab_recipes.audio.corpus import CorpusSettings, utterance, write_corpus
from tpulab_recipes.gpt_sovits.checkpoints import make_models
from tpulab_recipes.gpt_sovits.config import SMALL
from tpulab_recipes.gpt_sovits.data import (
    eval_batches,
    fit_tokens,
    prepare,
    read_clips,
    small_features,
    steps_per_epoch,
    train_batches,
)
from tpulab_recipes.gpt_sovits.text import phonemes_of
from tpulab_recipes.gpt_sovits.trainer import Trainer
from tpulab_recipes.gpt_sovits.voices import Voice, envelope_distance
from tpulab_recipes.runtime.selection import make

#: Steps, not seconds: the result must not depend on the load of the machine.
STEPS, CLIPS, HELD_OUT = 700, 60, 6


def main() -> None:
    torch.set_num_threads(1)
    config, backend = SMALL.but(epochs=1000), make("cpu", "cpu")
    features = small_features(config)
    with tempfile.TemporaryDirectory() as folder:
        rate = {"sample_rate": config.sampling_rate, "hop": config.hop_length}
        write_corpus(folder, CorpusSettings(CLIPS, speakers=2, **rate))
        prepare(f"{folder}/corpus.list", f"{folder}/exp", config, features)
        clips, _ = read_clips(f"{folder}/exp", config)
    test, train = clips[:HELD_OUT], clips[HELD_OUT:]
    generator, discriminator = make_models(config)
    fit_tokens(generator, train, config.seed)
    backend.seed(config.seed)
    trainer = Trainer(config, generator, discriminator, backend, steps_per_epoch(train, config))
    before, began = trainer.evaluate(eval_batches(test, config)), time.process_time()
    for _, batch in zip(range(STEPS), train_batches(train, config), strict=False):
        trainer.train_step(backend.shard_batch(batch))
    seconds, after = time.process_time() - began, trainer.evaluate(eval_batches(test, config))

    def output(number: int, speaker: int) -> Any:
        """The sentence of an odd number: speaker 1 is Anna, 2 is Ben, with the same timing."""
        return utterance(CorpusSettings(speakers=speaker, **rate), number)

    voice, converted = Voice(generator, backend, config, features), []
    for source, target in ((1, 2), (2, 1)):
        references = [output(2 * number + 1, target).wave for number in range(10, 13)]
        for number in (201, 203, 205, 207):
            spoken = output(number, source)
            phonemes = phonemes_of(spoken.text)
            wave = voice.convert(spoken.wave, references, phonemes=phonemes)
            renditions = (spoken.wave, output(number, target).wave)
            far = [envelope_distance(wave, each, config.sampling_rate) for each in renditions]
            converted.append({"to_source": far[0], "to_target": far[1]})
    found = {"before": before, "after": after, "cpu_seconds": seconds, "steps": trainer.steps_done}
    sys.stdout.write(json.dumps(found | {"converted": converted}) + "\n")


if __name__ == "__main__":
    main()
