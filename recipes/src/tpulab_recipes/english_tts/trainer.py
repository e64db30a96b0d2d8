"""Training: one compiled update for each bucket of length, whatever the text.

Nothing of a step is read back: figures stay on the device and are fetched every `log_interval` batches. Where
the device needs float16 and a scaler (CUDA, MPS), the step is plain PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch

from tpulab_recipes.common.errors import RecipeError
from tpulab_recipes.common.preparation import digest
from tpulab_recipes.common.progress import Progress, Silent
from tpulab_recipes.common.steering import PlainRun, Run
from tpulab_recipes.english_tts import checkpoint_manager
from tpulab_recipes.english_tts.adaptive_memory_manager import AdaptiveMemoryManager
from tpulab_recipes.english_tts.config_english import MAY_CHANGE, EnglishTrainingConfig
from tpulab_recipes.english_tts.data import (
    PhonemeProcessor,
    Utterance,
    batches,
    batches_per_epoch,
)
from tpulab_recipes.english_tts.device_type import AmpName, DeviceType
from tpulab_recipes.english_tts.interbatch_profiler import InterbatchProfiler, measure_phases
from tpulab_recipes.english_tts.model import KokoroModel, Losses, losses
from tpulab_recipes.english_tts.mps_grad_scaler import MPSGradScaler
from tpulab_recipes.runtime.too_large import is_out_of_memory, reason_of
from tpulab_recipes.torch_training import (
    Resumable,
    cosine,
    make_adamw,
    restore,
    set_learning_rate,
    snapshot,
    warmup_cosine,
)
from tpulab_recipes.torch_training.compiled_step import compiled_step
from tpulab_recipes.torch_training.fit import Loop, Training, fit, fit_epoch, report_resumed
from tpulab_recipes.torch_training.learning_rate import fitting_warmup


class OutOfMemory(RecipeError):
    """The device's memory does not hold a batch."""

    code = "out_of_memory"


def rate_at(c: EnglishTrainingConfig, step: int, steps_per_epoch: int) -> float:
    """The learning rate of a step, counted from 0.

    `warmup_cosine`: up over the warm-up, then down to `lr_eta_min`. `warm_restarts`: torch's
    CosineAnnealingWarmRestarts, stepped after each epoch.
    """
    high, low = c.learning_rate, c.lr_eta_min
    if c.scheduler == "warm_restarts":
        past, length = step // steps_per_epoch, c.lr_T_0
        while past >= length:
            past, length = past - length, length * c.lr_T_mult
        return low + (high - low) * cosine(past / length)
    share = warmup_cosine(step, c.warmup_steps, c.num_epochs * steps_per_epoch)
    warming = step < fitting_warmup(c.warmup_steps, c.num_epochs * steps_per_epoch)
    return high * share if warming else low + (high - low) * share


class KokoroTrainer(Resumable):
    """Owns model, optimizer, scaler, memory manager and profiler.

    Args:
        train, held_out: utterances (`data.split`).
        statistics: of `data.prepare`.
        run: the controls of a page; None: no controls.
        amp: the type of matrix products, instead of the device's default.
    """

    def __init__(
        self,
        config: EnglishTrainingConfig,
        backend: Any,
        train: Sequence[Utterance],
        held_out: Sequence[Utterance],
        statistics: Mapping[str, Any],
        *,
        run: Run | None = None,
        progress: Progress | None = None,
        amp: AmpName | None = None,
    ) -> None:
        self.config, self.backend, self.steps_done = config, backend, 0
        self._torch = backend
        self.train_set, self.held_out = list(train), list(held_out)
        self.statistics = statistics
        self.data_dir = str(statistics.get("data_dir", "made up"))
        self.steps_per_epoch = batches_per_epoch(self.train_set, config)
        self.device_type = DeviceType.of(backend)
        mixed = config.cpu_precision if self.device_type is DeviceType.CPU else self.device_type.amp
        self.amp: AmpName = amp or (mixed if config.use_mixed_precision else "float32")
        self.run = run or PlainRun({"learning_rate": config.learning_rate})
        self.progress = progress or Silent()
        self.processor = PhonemeProcessor(trained=statistics.get("symbols", ()))
        backend.seed(config.seed)
        model = KokoroModel(
            config, len(self.processor), backend.recompute if config.gradient_checkpointing else None
        )
        model.mel_mean.copy_(torch.tensor(statistics["mel_mean"]))
        model.mel_std.copy_(torch.tensor(statistics["mel_std"]))
        self.model: Any = backend.prepare(model)
        self.peak, self.best = config.learning_rate, math.inf
        self.optimizer = make_adamw(
            backend,
            self.model,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            betas=config.adam_betas,
            clip_norm=config.max_grad_norm,
        )
        self.scaler = self._make_scaler()
        self.memory = AdaptiveMemoryManager(self.device_type, backend, enabled=config.enable_adaptive_memory)
        self.profiler: InterbatchProfiler | None = None
        if config.enable_interbatch_profiling:
            self.profiler = InterbatchProfiler(config.batch_size)
            if hasattr(self.run, "run"):
                self.profiler.follow(self.run.run)
        self._evaluate = backend.compile(self.measured, name="tts_evaluate")
        self.on_figures: list[Callable[[int, Mapping[str, float]], None]] = []
        self._traced, self._last_loss = False, math.inf
        backend.sync()

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the training utterances."""
        rows = self.train_set
        return digest(*(part for one in rows for part in (one.name, one.phonemes, one.durations, one.mel)))

    # -- a step ----------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.steps_done // self.steps_per_epoch

    def get_autocast_context(self) -> AbstractContextManager[Any]:
        if self.amp == "float16":
            return torch.autocast(torch.device(self.backend.device()).type, dtype=torch.float16)
        precision: AbstractContextManager[Any] = self.backend.precision(self.amp)
        return precision

    def before_step(self) -> None:
        """The rate is written into a tensor, and so is no constant of the program."""
        share = rate_at(self.config, self.steps_done, self.steps_per_epoch) / self.config.learning_rate
        self.rate = self.peak * share
        set_learning_rate(self.backend, self.optimizer, self.rate)

    @compiled_step
    def train_step(self, batch: Any) -> Losses:
        """One update with a batch on the device; returns its losses, still on the device."""
        with self.get_autocast_context():
            found = self._losses(batch, self._torch.mean_over_processes)
        self.scaler.scale(found.total).backward()
        # Gradients are clipped in the optimizer's own step, which comes after they are unscaled.
        self.scaler.unscale_(self.optimizer)
        if self.scaler.is_enabled():
            self.scaler.step(self.optimizer)
        else:
            self._torch.optimizer_step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return Losses(*(each.detach() for each in found))

    def _losses(self, batch: Any, *mean_over_processes: Any) -> Losses:
        model, c = self.model, self.config
        batch = {**batch, "mel": model.normalised(batch["mel"])}
        shown = None
        if model.training and c.frame_dropout:
            shown = torch.rand(batch["mel"].shape[:2], device=batch["mel"].device) >= c.frame_dropout
        spoken = model(
            batch["phonemes"],
            batch["phoneme_lengths"],
            batch["durations"],
            batch["mel"],
            batch["mel_lengths"],
            shown,
        )
        return losses(c, spoken, batch, *mean_over_processes)

    @torch.no_grad()
    def measured(self, batch: Any) -> tuple[Losses, Any]:
        """The losses of a batch, and how many frames they are means of."""
        with self.get_autocast_context():
            return self._losses(batch), batch["mel_lengths"].sum()

    def validate(self) -> dict[str, float]:
        """Losses of the held-out utterances, means over their frames; empty without any."""
        if not self.held_out:
            return {}
        self.model.eval()
        found = [
            self._evaluate(batch) for batch in self._placed(batches(self.held_out, self.config, epoch=None))
        ]
        sums = dict.fromkeys((*Losses._fields, "frames"), 0.0)
        for each, frames in self.backend.to_host(found):
            for name, one in zip(Losses._fields, each, strict=True):
                sums[name] += float(one) * float(frames)
            sums["frames"] += float(frames)
        self.model.train()
        # Each process has read its own rows.
        sums = self.backend.reduce_metrics(sums, "sum")
        return {name: sums[name] / sums["frames"] for name in Losses._fields}

    # -- the loop --------------------------------------------------------------------------------------

    def train(self) -> dict[str, Any]:
        """All epochs that are left, and the figures of the last one. Raises `OutOfMemory`,
        `TrainingDiverged`."""
        self.progress.start("training", self.config.num_epochs * self.steps_per_epoch - self.steps_done)
        found = fit(self.training(), self.loop())
        self.progress.finish()
        return found

    def train_epoch(self) -> dict[str, Any] | None:
        """The rest of this epoch; None when the run was stopped in it."""
        return fit_epoch(self.training(), self.loop()) or None

    def loop(self) -> Loop:
        c = self.config
        return Loop(log_every=c.log_interval, save_minutes=c.save_minutes, sample_every=c.sample_every)

    def training(self) -> Training:
        """This training, for the loop that all recipes share."""
        c = self.config
        return Training(
            name="English TTS",
            trainer=self,
            batches=self._rows,
            in_epoch=self.steps_per_epoch,
            epochs=c.num_epochs,
            output=c.output_dir,
            data=f"{self.data_dir}: {len(self.train_set)} utterances to train on, {len(self.held_out)} held "
            f"out, {self.steps_per_epoch} steps an epoch; ",
            warmup_steps=c.warmup_steps,
            evaluate=self._inspected if self.held_out and c.validate_every else None,
            evaluates_at=lambda epoch: bool(c.validate_every) and epoch % c.validate_every == 0,
            saves_at=lambda epoch: epoch % c.save_every == 0,
            sample=self.sample if c.sample_every else None,
            shown=lambda row: f"loss {row['total']:.3f}",
            step=self._step,
            write=lambda: self.save_checkpoint(self._last_loss),
            resumes=False,  # by `setup_checkpoint_resumption`, from any file
            epoch_means=True,
            named=self._named,
            run=self.run,
            log=self._report,
            progress=self.progress,
            ahead=c.num_workers,
        )

    def _step(self, batch: Any) -> Mapping[str, Any]:
        """One step of the loop, with the profiler and the memory manager."""
        c, number = self.config, self.steps_done
        if self.profiler and number and number % c.interbatch_report_interval == 0:
            self.profiler.print_report()
        if c.memory_report_interval and number and number % c.memory_report_interval == 0:
            print(f"memory: {self.memory.get_memory_report()}", flush=True)
        self.memory.adaptive_cleanup(number)
        self._trace(number)
        return self._guarded(batch)._asdict()

    def _inspected(self) -> dict[str, float]:
        """Validation; the best checkpoint so far is kept beside the others."""
        found = self.validate()
        if found["total"] < self.best:
            self.best = found["total"]
            self.save_checkpoint(found["total"], best=True)
        return {f"val/{name}_loss": value for name, value in found.items()}

    def _named(self, row: Mapping[str, float], of_epoch: bool) -> dict[str, float]:
        """The seed's names of figures."""
        self._last_loss = row["total"]
        if of_epoch:
            return {f"train/epoch_{name}_loss": value for name, value in row.items()} | {
                "epoch": float(self.epoch)
            }
        return {
            **{f"train/batch_{name}_loss": value for name, value in row.items()},
            "train/learning_rate": self.rate,
            "train/grad_scale": self.scaler.get_scale(),
            "epoch": self.steps_done / self.steps_per_epoch,
            **self.memory.metrics(),
        }

    def sample(self) -> str:
        """Writes samples; `EnglishTrainer` speaks held-out sentences."""
        return "no samples"

    def _report(self, step: int, figures: Mapping[str, float]) -> None:
        for listener in self.on_figures:
            listener(step, figures)

    def _rows(self, first: int) -> Iterator[Any]:
        """The batches from a step on, on the host."""
        for epoch in count(first // self.steps_per_epoch):
            start = max(0, first - epoch * self.steps_per_epoch)
            yield from islice(batches(self.train_set, self.config, epoch=epoch), start, None)

    def epoch_batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """The batches of an epoch from number `start` on, on the device."""
        return self._placed(islice(batches(self.train_set, self.config, epoch=epoch), start, None))

    def _placed(self, rows: Iterator[Any]) -> Iterator[Any]:
        placed: Iterator[Any] = self.backend.batches(
            map(self.backend.own_rows, rows), ahead=self.config.num_workers
        )
        return placed

    # -- memory ----------------------------------------------------------------------------------------

    def _guarded(self, batch: Any, *, is_second: bool = False) -> Losses:
        """A step; on CUDA and MPS, whose memory a clean-up frees, a second try of one that did not fit."""
        try:
            return self.train_step(batch)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            self.steps_done -= 1
            failed = error.with_traceback(None)  # Its traceback holds the activations.
        if not is_second and self.device_type in (DeviceType.CUDA, DeviceType.MPS):
            return self.handle_oom_with_adaptive_cleanup(batch)
        rows, frames = batch["mel"].shape[:2]
        raise OutOfMemory(
            f"{rows} utterances of the bucket of {frames} frames do not fit the memory of this "
            f"{self.device_type.name} device ({reason_of(failed)}): lower batch_size, drop the longest of "
            "frame_buckets, or set gradient_checkpointing."
        ) from failed

    def handle_oom_with_adaptive_cleanup(self, batch: Any) -> Losses:
        self.optimizer.zero_grad(set_to_none=True)
        self.memory.emergency_cleanup()
        return self._guarded(batch, is_second=True)

    # -- profiling -------------------------------------------------------------------------------------

    def profile_training_steps(self, rounds: int = 5) -> dict[str, float]:
        """Milliseconds of a forward pass and of a whole step, each time waiting for the device; the step's
        changes are undone."""
        before = self.state()
        batch = next(iter(self.epoch_batches(0)))

        def forward() -> Any:
            with self.backend.step():
                return self.measured(batch)

        self.model.train()
        found = measure_phases(
            self.backend.sync, {"forward": forward, "step": lambda: self.train_step(batch)}, rounds
        )
        self.load_state(before)
        return found | {"backward_and_update": found["step"] - found["forward"]}

    def get_profiling_report(self) -> dict[str, float]:
        return self.profiler.get_statistics() if self.profiler else {}

    def start_torch_profiler(self) -> None:
        """Begins a profile of the framework, below the output folder."""
        self.backend.start_trace(str(Path(self.config.output_dir) / "profile"))
        self._traced = True

    def stop_torch_profiler(self) -> None:
        if self._traced:
            self.backend.stop_trace()
            self._traced = False

    def _trace(self, number: int) -> None:
        """Steps 2 to 6, without compilations."""
        if self.config.enable_profiling and number == 2:
            self.start_torch_profiler()
        if self._traced and number == 7:
            self.stop_torch_profiler()

    # -- state -----------------------------------------------------------------------------------------

    def _make_scaler(self) -> Any:
        c, on = self.config, self.amp == "float16"
        settings: dict[str, Any] = {
            "init_scale": c.amp_init_scale,
            "growth_factor": c.amp_growth_factor,
            "backoff_factor": c.amp_backoff_factor,
            "growth_interval": c.amp_growth_interval,
        }
        if self.device_type is DeviceType.CUDA:
            return torch.amp.GradScaler("cuda", enabled=on, **settings)
        return MPSGradScaler(enabled=on, **settings)

    def state(self) -> dict[str, Any]:
        """The content of a checkpoint."""
        found = snapshot(
            self._torch, model=self.model, optimizer=self.optimizer, step=self.steps_done, config=self.config
        )
        schedule = {"kind": self.config.scheduler, "last_step": self.steps_done, "peak": self.peak}
        return found | {
            "scheduler": schedule,
            "scaler": self.scaler.state_dict(),
            "best": self.best,
            "data": self.fingerprint,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from a checkpoint's state. Raises `CheckpointError` for one of other settings."""
        known = {**state, "config": {**self.config.to_dict(), **state["config"]}}
        self.steps_done = restore(
            self._torch,
            known,
            model=self.model,
            optimizer=self.optimizer,
            config=self.config,
            may_change=MAY_CHANGE,
        )
        self.peak, self.best = float(state["scheduler"]["peak"]), float(state["best"])
        if state["scaler"] and self.scaler.is_enabled():
            self.scaler.load_state_dict(state["scaler"])

    def save_checkpoint(self, loss: float, *, best: bool = False) -> Path:
        """Writes the checkpoint of this step; with the scaler's state, as the seed's
        `save_checkpoint_with_scaler`."""
        return checkpoint_manager.save_checkpoint(
            self.backend,
            self.config.output_dir,
            self.state(),
            epoch=self.epoch,
            loss=loss,
            keep_last_n=self.config.keep_last_n,
            best=best,
        )

    save_checkpoint_with_scaler = save_checkpoint

    def setup_checkpoint_resumption(self) -> int:
        """Resumes from `resume_checkpoint`; returns the step, 0: from the beginning."""
        place = self.config.resume_checkpoint
        if not place:
            return 0
        place = self.config.output_dir if place == "auto" else place
        found = checkpoint_manager.load_checkpoint(place, self.backend)
        if found is not None:
            self.load_state(found)
            report_resumed(self.steps_done, found.get("data"), self.fingerprint)
        return self.steps_done
