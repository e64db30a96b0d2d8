"""Trains the tiny model to say single words, and prints a JSON line: how many held-out words a recogniser
recognises before and after, and the cross-entropy of their codes with their own texts and with others'.

The words are cut out of sentences of the synthetic corpus in one voice; the first sentences are held
out. Their codes are from the lessons' codec (`audio.mel_codec`): codes of a random DAC depend so much on
where in a period of the voice a frame begins that texts do not predict them. The recogniser
(`audio.recognition`) uses no model. Run by `main.mjs` in the environment `torch-xla`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from learning import of_each_channel
from tpulab_recipes.audio.corpus import CorpusSettings, utterance
from tpulab_recipes.audio.files import fitted
from tpulab_recipes.audio.formants import VOICES
from tpulab_recipes.audio.mel_codec import MelCodec, fit_mel_codec
from tpulab_recipes.audio.recognition import WORDS, recognise
from tpulab_recipes.dia.config import Config
from tpulab_recipes.dia.data import Clip, Layout, steps_per_epoch, train_batches
from tpulab_recipes.dia.generation import Sampling, generate
from tpulab_recipes.dia.model import tiny_model, tiny_processor
from tpulab_recipes.dia.trainer import Trainer
from tpulab_recipes.runtime.selection import make

SENTENCES, HELD_OUT_WORDS, ENTRIES = 530, 96, 64
CORPUS = CorpusSettings(speakers=1, sample_rate=16_000, hop=320)
#: At the learning rate of notebook 06; two epochs are a thousand steps.
TRAINING = Config(audio_length=128, batch_size=8, epochs=2, learning_rate=8e-3)


def spoken_words() -> list[tuple[str, np.ndarray]]:
    """Words and their sound, Float[sample], sentence by sentence."""
    return [
        (span.label, each.wave[span.start : span.end])
        for each in (utterance(CORPUS, number) for number in range(SENTENCES))
        for span in each.word_spans
    ]


def clips_of(words: Sequence[tuple[str, np.ndarray]], codec: MelCodec) -> list[Clip]:
    read = tiny_processor().tokenizer
    clips = []
    for number, (word, wave) in enumerate(words):
        whole = torch.from_numpy(fitted(wave, codec.frames(len(wave)) * codec.hop))
        codes = codec.encode(whole[None])[0].T.numpy().astype(np.int16)
        clips.append(Clip(str(number), np.asarray(read(f"[S1] {word}")["input_ids"], np.int32), codes))
    return clips


def word_share(codes: Sequence[Any], words: Sequence[str], codec: MelCodec) -> float:
    """For Int[frame, channel] of each word, the share that the recogniser assigns to that word."""
    right = 0
    for each, word in zip(codes, words, strict=True):
        if len(each):
            wave = codec.decode(torch.as_tensor(np.asarray(each)).long().T[None])[0].numpy()
            right += recognise(wave, codec.sample_rate, [(0, len(wave))], VOICES[0]) == [word]
    return right / len(words)


def main() -> None:
    torch.set_num_threads(1)
    words = spoken_words()
    codec = fit_mel_codec([wave for _, wave in words[HELD_OUT_WORDS:600]], entries=ENTRIES)
    clips = clips_of(words, codec)
    test, train = clips[:HELD_OUT_WORDS], clips[HELD_OUT_WORDS:]
    requested = [word for word, _ in words[:HELD_OUT_WORDS]]
    shifted = test[3:] + test[:3]
    others = [replace(clip, text=other.text) for clip, other in zip(test, shifted, strict=True)]
    backend, model = make("cpu", "cpu"), tiny_model(entries=ENTRIES)
    with torch.no_grad():
        for weight in model.parameters():  # a spread of 0.02 suits the real width of 2,048, not 64
            weight.mul_(5 if weight.ndim > 1 else 1)
    backend.seed(TRAINING.seed)
    total = TRAINING.epochs * steps_per_epoch(train, TRAINING)
    trainer = Trainer(TRAINING, model, backend, total)
    sampling = Sampling(max_tokens=80, text_length=TRAINING.text_length, temperature=0)

    def report() -> dict[str, Any]:
        trainer.model.eval()
        output = [
            codes
            for first in range(0, len(test), 16)
            for codes in generate(
                trainer.model, backend, [list(clip.text) for clip in test[first : first + 16]], sampling
            )
        ]
        return {
            "heard": word_share(output, requested, codec),
            "own_texts": of_each_channel(trainer, test),
            "others_texts": of_each_channel(trainer, others),
        }

    before, began, cpu = report(), time.perf_counter(), time.process_time()
    for batch in backend.batches(train_batches(train, TRAINING, Layout.of(model.config))):
        trainer.train_step(batch)
    figures = {
        "steps": total,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "words": len(WORDS),
        "clips": len(train),
        "before": before,
        "after": report(),
        "heard_in_the_clips": word_share([clip.codes for clip in test], requested, codec),
        "heard_in_other_words": word_share([clip.codes for clip in shifted], requested, codec),
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
