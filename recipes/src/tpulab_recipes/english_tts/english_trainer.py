"""The English voice: the base trainer, its metrics in JSON lines and, on request, in TensorBoard and Weights
& Biases, all under the seed's keys; and speech of held-out sentences."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes import runtime
from tpulab_recipes.audio.vocoders import Vocoder, griffin_lim_vocoder
from tpulab_recipes.common import log_writers, steering
from tpulab_recipes.common.log_writers import LogWriter
from tpulab_recipes.common.steering import PlainRun, Run, around
from tpulab_recipes.english_tts.config_english import EnglishTrainingConfig
from tpulab_recipes.english_tts.data import LJSpeechDataset
from tpulab_recipes.english_tts.generation import Speech, speak
from tpulab_recipes.english_tts.model import KokoroModel
from tpulab_recipes.english_tts.trainer import KokoroTrainer


class EnglishTrainer(KokoroTrainer):
    """Arguments as the base's; raises `MissingPackage` without a logger's package. `close` ends the logs."""

    def __init__(self, config: EnglishTrainingConfig, backend: Any, *data: Any, **options: Any) -> None:
        super().__init__(config, backend, *data, **options)
        self.vocoder: Vocoder = griffin_lim_vocoder(config.mel)
        self.writers: list[LogWriter] = []
        if backend.world().is_main:
            project = config.wandb_project if config.use_wandb else ""
            logs = f"{config.output_dir.rstrip('/')}/{config.log_dir}"
            name, board = config.wandb_run_name, config.use_tensorboard
            self.writers = log_writers.open_writers(logs, board, project, name, config.to_dict())
        self.on_figures.append(self._write)
        self._logged = (time.perf_counter(), 0)
        self.run.on(
            checkpoint=lambda: self.save_checkpoint(self.best).name,
            evaluate=self.validate,
            sample=self.sample,
        )

    @classmethod
    def of(
        cls,
        config: EnglishTrainingConfig,
        dataset: LJSpeechDataset,
        model: KokoroModel | None = None,
        backend: Any = None,
        **options: Any,
    ) -> EnglishTrainer:
        """A trainer of a dataset, steered from the page. `model`: the weights to begin with; None: random
        ones. `backend`: None: the device of this process (`runtime.use`)."""
        made = cls(
            config,
            backend or runtime.use(),
            dataset.train,
            dataset.held_out,
            dataset.statistics,
            run=open_run(config),
            **options,
        )
        if model is not None:
            sound = {name: made.model.state_dict()[name] for name in ("mel_mean", "mel_std")}
            made.model.load_state_dict({**model.state_dict(), **sound})
        return made

    def before_step(self) -> None:
        self.peak = float(self.run.hyper().get("learning_rate", self.peak))
        super().before_step()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """As the base class; a peak rate that was changed from the page is applied to the run again."""
        super().load_state(state)
        if isinstance(self.run, PlainRun):
            self.run.values["learning_rate"] = self.peak
        elif float(self.run.hyper()["learning_rate"]) != self.peak:
            self.run.run.set("learning_rate", self.peak)  # type: ignore[attr-defined]

    def _write(self, step: int, figures: Mapping[str, float]) -> None:
        figures = dict(figures)
        if "train/batch_total_loss" in figures:
            began, before = self._logged
            now = time.perf_counter()
            samples = (step - before) * self.config.batch_size
            figures["train/samples_per_second"] = samples / max(now - began, 1e-9)
            self._logged = (now, step)
        for writer in self.writers:
            writer.figures(step, figures)

    def say(self, phonemes: Sequence[NDArray[np.int32]], **options: Any) -> list[Speech]:
        return speak(self.model, self.backend, phonemes, fit=True, **options)

    def sample(self, count: int = 2) -> str:
        """Writes the first held-out sentences as sound to `samples/`; returns what it wrote. All processes
        compute, and the main one writes."""
        from tpulab_recipes.audio import files

        chosen = (self.held_out or self.train_set)[:count]
        speeches = self.say([one.phonemes for one in chosen])
        folder = Path(self.config.output_dir) / "samples"
        if self.backend.world().is_main:
            folder.mkdir(parents=True, exist_ok=True)
            for one, spoken in zip(chosen, speeches, strict=True):
                wave = self.vocoder(spoken.mel)
                files.save(folder / f"{self.steps_done:06d}_{one.name}.wav", wave, self.config.sample_rate)
        return f"{len(chosen)} sentences"

    def close(self) -> None:
        self.stop_torch_profiler()
        if self.profiler is not None:
            self.profiler.close()
        for writer in self.writers:
            writer.close()


def open_run(config: EnglishTrainingConfig, name: str = "English TTS") -> Run:
    """A run whose peak learning rate the page can change; without `tpulab` a run of the recipe alone."""
    rate, size = config.learning_rate, config.batch_size
    ranges = {"learning_rate": around(rate)}
    return steering.open_run(name, config, {"learning_rate": rate}, ranges, samples_per_step=size)
