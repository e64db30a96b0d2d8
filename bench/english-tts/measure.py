"""Times the English voice and trains it; prints a JSON line. Run by `main.mjs` in the environment
`torch-xla`.

`steps`: the lesson's training step in the recipe (XLA:CPU and plain PyTorch) and the same network in a plain
loop of torch, groups of steps in turns, one thread, the lower quartile of the groups. `input`: batches alone.
`overhead`: the share of a batch's time that profiler and memory manager take. `learning` (with a folder):
trains the lesson on plain PyTorch with all cores, and has the held-out sentences recognised at intervals.
`preparation`: features and statistics of as many hours as LJSpeech 1.1 has, in shorter clips.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ["CPU_NUM_DEVICES"] = "1"
os.environ["TPULAB_TEXT"] = "0"

import torch
from tpulab_recipes.audio.formants import VOICES
from tpulab_recipes.audio.recognition import recognise, word_spans
from tpulab_recipes.english_tts.adaptive_memory_manager import AdaptiveMemoryManager
from tpulab_recipes.english_tts.config_english import get_default_config, get_lesson_config
from tpulab_recipes.english_tts.data import batches, prepare, read_features, split
from tpulab_recipes.english_tts.device_type import DeviceType
from tpulab_recipes.english_tts.english_trainer import EnglishTrainer
from tpulab_recipes.english_tts.model import KokoroModel, losses
from tpulab_recipes.english_tts.trainer import KokoroTrainer
from tpulab_recipes.runtime.selection import make

GROUPS, STEPS, CHECKS, HOURS = 5, 3, 2000, 24
CONFIG = get_lesson_config().but(frame_buckets=(160,), num_workers=0)


def recipe(name: str, data: Any) -> tuple[Callable[[Any], Any], Callable[[], None]]:
    backend = make(name, "cpu")
    trainer = KokoroTrainer(CONFIG, backend, *data)
    return lambda batch: trainer.train_step(backend.shard_batch(batch)), backend.sync


def plain(data: Any) -> tuple[Callable[[Any], Any], Callable[[], None]]:
    """The same network, loss, optimizer and clipping, as usually written without the recipe."""
    model = KokoroModel(CONFIG, 96)
    model.mel_mean.copy_(torch.tensor(data[2]["mel_mean"]))
    model.mel_std.copy_(torch.tensor(data[2]["mel_std"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=CONFIG.learning_rate)

    def step(batch: Any) -> None:
        row = {name: torch.from_numpy(value) for name, value in batch.items()}
        row["mel"] = model.normalised(row["mel"])
        names = ("phonemes", "phoneme_lengths", "durations", "mel", "mel_lengths")
        shown = torch.rand(row["mel"].shape[:2]) >= CONFIG.frame_dropout
        losses(CONFIG, model(*(row[name] for name in names), shown), row).total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CONFIG.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()

    return step, lambda: None


def step_times(data: Any) -> dict[str, float]:
    kinds = {"recipe, XLA:CPU": recipe("torch_xla", data), "recipe, plain PyTorch": recipe("cpu", data)}
    kinds["plain torch"] = plain(data)
    rows = list(batches(data[0], CONFIG, epoch=0))[:STEPS]
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(GROUPS + 1):
        for name, (step, wait) in kinds.items():
            began = time.perf_counter()
            for batch in rows:
                step(batch)
            wait()
            if turn:  # the first compiles
                times[name].append(1e3 * (time.perf_counter() - began) / STEPS)
    return {name: statistics.quantiles(each, n=4)[0] for name, each in times.items()}


def overhead(step_ms: float) -> dict[str, float]:
    """Cost of profiler and memory manager, in percent of a step of this length."""
    manager = AdaptiveMemoryManager(DeviceType.CPU)
    began = time.perf_counter()
    for number in range(CHECKS):
        manager.adaptive_cleanup(number)
    check_ms = 1e3 * (time.perf_counter() - began) / CHECKS

    from tpulab_recipes.english_tts.interbatch_profiler import InterbatchProfiler

    import tpulab

    def loop(run: Any) -> float:
        began = time.process_time()
        for _ in run.steps(range(CHECKS)):
            run.log(loss=1.0)
        return 1e3 * (time.process_time() - began) / CHECKS

    profiler = InterbatchProfiler(CONFIG.batch_size)
    run = tpulab.run("bench", log=False)
    profiler.follow(run)
    profiler_ms = loop(run)
    profiler.close()
    return {
        "memory manager": 100 * check_ms / step_ms,
        "step clock and profiler": 100 * profiler_ms / step_ms,
    }


def recognised(trainer: EnglishTrainer) -> float:
    right = []
    for one in trainer.held_out:
        words = one.text.lower().strip(".").split()
        (output,) = trainer.say([one.phonemes])
        spans = word_spans(words, output.durations, trainer.config.hop_length)
        received = recognise(trainer.vocoder(output.mel), trainer.config.sample_rate, spans, VOICES[0])
        right += [a == b for a, b in zip(words, received, strict=True)]
    return sum(right) / len(right)


def learning(folder: str) -> dict[str, Any]:
    """The lesson with its defaults: share of held-out words, and how far stop tokens are from the end."""
    config = get_lesson_config().but(output_dir=folder, resume_checkpoint="")
    prepare("", folder, config)
    utterances, statistics_ = read_features(folder, config)
    trainer = EnglishTrainer(config, make("cpu", "cpu"), *split(utterances, config), statistics_)
    rows, wall, processor = [], time.perf_counter(), time.process_time()
    while trainer.epoch < config.num_epochs:
        trainer.train_epoch()
        if trainer.epoch % 6 == 0:
            spent = {"wall_s": time.perf_counter() - wall, "processor_s": time.process_time() - processor}
            # The recogniser's time is not the training's.
            paused, used = time.perf_counter(), time.process_time()
            share = recognised(trainer)
            wall, processor = wall + time.perf_counter() - paused, processor + time.process_time() - used
            rows.append({"epoch": trainer.epoch, **spent, "words": share, "val": trainer.validate()["total"]})
    output = [trainer.say([one.phonemes])[0] for one in trainer.held_out]
    ends = [len(each.mel) - each.planned for each in output]
    trainer.close()
    return {
        "rows": rows,
        "stop_frames": [min(ends), max(ends)],
        "stopped": all(each.stopped for each in output),
    }


def preparation(folder: str) -> dict[str, float]:
    """200 clips of the built-in voice under many names: 24 hours at 22,050 Hz."""
    from tpulab_recipes.audio.spoken import SpokenSettings, write_spoken_corpus

    place, output, rows = Path(folder) / "lj", Path(folder) / "voice", []
    samples = write_spoken_corpus(place, SpokenSettings(count=200))
    names = [row.partition("|")[0] for row in (place / "metadata.csv").read_text().splitlines()]
    for number in range(HOURS * 3600 * 22_050 // samples + 1):
        for name in names:
            rows.append(f"copy_{number}_{name}|a text|a text")
            for kind, end in (("audio", "wav"), ("TextGrid", "TextGrid")):
                os.link(place / kind / f"{name}.{end}", place / kind / f"copy_{number}_{name}.{end}")
    (place / "metadata.csv").write_text("\n".join(rows) + "\n")
    began, used = time.perf_counter(), time.process_time()
    found = prepare(str(place), str(output), get_default_config())
    return {
        "clips": len(found["names"]),
        "hours": found["seconds"] / 3600,
        "wall_s": time.perf_counter() - began,
        "processor_s": time.process_time() - used,
    }


def main() -> None:
    part, folder = sys.argv[1:]
    if part == "preparation":
        torch.set_num_threads(1)
        found: dict[str, Any] = preparation(folder)
    elif part == "learning":
        torch.set_num_threads(os.cpu_count() or 1)
        found = learning(folder)
    else:
        torch.set_num_threads(1)
        prepare("", folder, CONFIG.but(corpus_count=60))
        utterances, statistics_ = read_features(folder, CONFIG)
        data = (*split(utterances, CONFIG), statistics_)
        steps = step_times(data)
        began, count = time.perf_counter(), 0
        while count < 4000:
            for batch in batches(data[0], CONFIG, epoch=count):
                count += len(batch["mel"])
        input_side = count / (time.perf_counter() - began)
        found = {"steps": steps, "input": input_side, "overhead": overhead(steps["recipe, plain PyTorch"])}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
