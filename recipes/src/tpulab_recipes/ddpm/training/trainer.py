"""The training loop: batches, steps, metrics, checkpoints, and the evaluator in between.

Interrupting it at any point loses at most what came after the last checkpoint; a resumed run reads the same
batches and draws the same noise as if nothing had happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from tpulab_recipes.common import interruption
from tpulab_recipes.common.errors import RecipeError, TrainingDiverged
from tpulab_recipes.common.interruption import Interrupted, stoppable
from tpulab_recipes.common.log_writers import LogWriter
from tpulab_recipes.common.pictures import grid
from tpulab_recipes.common.steering import PlainRun, Run
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.pipeline import Source
from tpulab_recipes.ddpm.model.unet import Network
from tpulab_recipes.ddpm.training.checkpoint import DATA, CheckpointFolder, newest_whole, open_folders
from tpulab_recipes.ddpm.training.evaluator import Evaluation
from tpulab_recipes.ddpm.training.step_cost import refuse_too_large, speed
from tpulab_recipes.ddpm.training.train_step import (
    MAX_SKIPPED,
    TrainState,
    compile_step,
    default_hyperparameters,
    make_initial_state,
)
from tpulab_recipes.runtime.jax_hosts import compile_on_all_hosts, wait_for_all
from tpulab_recipes.runtime.jax_mesh import make_mesh, put_batch, state_of_this_host
from tpulab_recipes.runtime.prefetch import prefetched

#: From the averaged weights and `guidance=` to the results.
Evaluator = Callable[..., Evaluation]


@dataclass(frozen=True)
class Figures:
    """One interval in the log."""

    step: int
    loss: float
    gnorm: float
    learning_rate: float
    skipped: int
    images_per_second: float
    #: None where operations cannot be counted, or the peak of the devices is unknown, as of XLA:CPU.
    tflop_per_second: float | None = None
    mfu_percent: float | None = None

    def as_dict(self) -> dict[str, float]:
        """The known values, without the step."""
        return {key: value for key, value in asdict(self).items() if key != "step" and value is not None}

    def __str__(self) -> str:
        words = f"loss {self.loss:.4f}, gradient {self.gnorm:.3f}, {self.images_per_second:.0f} images/s"
        if self.tflop_per_second is not None:
            words += f", {self.tflop_per_second:.3g} TFLOP/s"
        return words if self.mfu_percent is None else f"{words} ({self.mfu_percent:.1f}% MFU)"


class Trainer(AbstractContextManager["Trainer"]):
    """One training. `state` is its current state, from which `train` continues."""

    def __init__(
        self,
        config: Config,
        source: Source,
        *,
        mesh: Mesh | None = None,
        global_dir: str | None = None,
        writers: Sequence[LogWriter] = (),
        evaluate: Evaluator | None = None,
        on_log: Callable[[Figures], None] | None = None,
        on_evaluation: Callable[[int, Evaluation], None] | None = None,
        accept_changed: Collection[str] = (),
    ) -> None:
        """Continues from the newest checkpoint in `global_dir`. Raises `CheckpointError` when `config`
        differs from the settings of the checkpoint, except in `accept_changed`."""
        self.config, self.source = config, source
        self.mesh = mesh or make_mesh()
        self.network = Network(config)
        self._step = compile_step(self.network, self.mesh)
        refuse_too_large(self.network, self.mesh, self._step)
        self.folders: list[CheckpointFolder] = open_folders(config, global_dir) if global_dir else []
        self.writers, self.evaluate = list(writers), evaluate
        self._on_log, self._on_evaluation = on_log, on_evaluation
        self.data = source.describe()

        def resume(folder: CheckpointFolder, step: int) -> TrainState:
            folder.refuse_changes(config, accept_changed, step=step, data=self.data)
            return folder.load(self.network, self.mesh, step)

        found = newest_whole(self.folders, resume)
        self.resumed_at = None if found is None else int(found.step)
        self.state: TrainState = (
            make_initial_state(self.network, self.mesh, config.seed) if found is None else found
        )
        self.history: list[Figures] = []
        self._run: Run | None = None
        #: Guidance scale of the evaluator's samples.
        self.guidance = 2.0
        self._is_main = jax.process_index() == 0
        self._agreed_controls: dict[str, np.ndarray] = {}

    @property
    def step(self) -> int:
        return int(self.state.step)

    def train(self, until: int | None = None, run: Run | None = None) -> TrainState:
        """Trains up to the step `until` (the configuration's `iterations`). Its checkpoints are on the disk
        when it returns."""
        train = self.config.train
        until = train.iterations if until is None else until
        first = self.step
        if first >= until:
            return self.state
        run = run or PlainRun(default_hyperparameters(self.config))
        self._run = run
        run.on(checkpoint=self.save, evaluate=self._request_evaluation, sample=self._request_evaluation)
        pending: list[dict[str, Any]] = []
        since = time.perf_counter()
        placed = (put_batch(batch, self.mesh) for batch in self.source.batches(first))
        stopped = False
        with stoppable(), prefetched(placed, 2) as batches:
            numbered = zip(range(first + 1, until + 1), batches, strict=False)
            for number, batch in run.steps(numbered, total=until - first):
                hyper = self._agreed(number, run.hyper())
                self.guidance = float(hyper.pop("guidance", self.guidance))
                if number == first + 1:
                    compile_on_all_hosts(self._step, self.state, batch, hyper)
                self.state, figures = self._step(self.state, batch, hyper)
                pending.append(figures)
                run.log(loss=figures["loss"], gnorm=figures["gnorm"])
                if number % train.log_loss_every_steps == 0 or number == until:
                    since = self._log(number, pending, since)
                    pending = []
                self._keep(number, last=number == until)
                if train.snapshot_freq and number % train.snapshot_freq == 0:
                    self.run_evaluation()
                if stopped := self._is_stopped(number):
                    break
            if self.step < until:
                # Stopped from the page or by a signal: the weights so far are saved.
                if pending:
                    self._log(self.step, pending, since)
                self.save()
        for folder in self.folders:
            folder.finish()
        if stopped:
            saved = f"saved in {self.folders[0].url}" if self.folders else "but without a folder to save in"
            raise Interrupted(f" after step {self.step:,}, {saved}")
        return self.state

    def save(self) -> None:
        """A checkpoint, now, in the folder for recent ones. It is on the disk when this returns, as the page
        says."""
        if self.folders:
            self.folders[0].save(self.state, self.config, {DATA: self.data})
            self.folders[0].finish()

    def run_evaluation(self) -> None:
        """Samples and figures of the averaged weights, now."""
        if self.evaluate is None:
            return
        # Each host generates the same samples: no host could read an array that is spread over all hosts.
        found = self.evaluate(state_of_this_host(self.state.ema), guidance=self.guidance)
        wait_for_all("samples made")
        step = self.step
        if self._is_main:
            for writer in self.writers:
                if found.figures:
                    writer.figures(step, found.figures)
                writer.picture(step, "samples", grid(found.images[:32], 8, scale=2))
        if self._run:
            self._run.log(**found.figures)
        if self._on_evaluation:
            self._on_evaluation(step, found)

    def _request_evaluation(self) -> None:
        if self.evaluate is None:
            raise RecipeError("This training cannot sample or evaluate: it was started without an evaluator.")
        self.run_evaluation()

    def compilations(self) -> int:
        """How many programs have been compiled for the training step."""
        return int(self._step._cache_size())

    def close(self) -> None:
        for folder in self.folders:
            folder.close()
        for writer in self.writers:
            writer.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _agreed(self, number: int, controls: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The controls that the first host's page requests. The others receive them once per log interval: at
        every step they would have to wait for each other."""
        if jax.process_count() == 1:
            return controls
        if not self._agreed_controls or number % self.config.train.log_loss_every_steps == 0:
            self._agreed_controls = jax.tree.map(np.asarray, multihost_utils.broadcast_one_to_all(controls))
        return dict(self._agreed_controls)

    def _is_stopped(self, number: int) -> bool:
        if jax.process_count() == 1:
            return interruption.requested()
        # All hosts stop at the same step.
        return number % self.config.train.log_loss_every_steps == 0 and bool(
            multihost_utils.process_allgather(np.array(interruption.requested())).any()
        )

    def _keep(self, number: int, last: bool) -> None:
        for place, folder in enumerate(self.folders):
            if number % folder.save_every == 0 or (last and place == 0):
                folder.save(self.state, self.config, {DATA: self.data})

    def _log(self, number: int, pending: list[dict[str, Any]], since: float) -> float:
        values = {name: np.array([float(row[name]) for row in pending]) for name in pending[0]}
        now = time.perf_counter()
        images = len(pending) * self.config.train.batch_size * jax.process_count()
        rate = images / (now - since)
        fine = np.isfinite(values["loss"]) & np.isfinite(values["gnorm"])
        means = {name: values[name][fine].mean() if fine.any() else np.nan for name in ("loss", "gnorm")}
        figures = Figures(
            step=number,
            loss=float(means["loss"]),
            gnorm=float(means["gnorm"]),
            learning_rate=float(values["learning_rate"][-1]),
            skipped=int(values["skipped"][-1]),
            images_per_second=rate,
            **speed(self.config, self.mesh.devices.flat, rate),
        )
        self.history.append(figures)
        if self._is_main:
            for writer in self.writers:
                writer.figures(number, figures.as_dict())
        if self._on_log:
            self._on_log(figures)
        if values["skipped_in_a_row"].max() >= MAX_SKIPPED:
            raise TrainingDiverged(
                f"The gradient was not finite for {MAX_SKIPPED} steps in a row (step {number}); continue "
                "from an earlier checkpoint with a smaller train.max_learning_rate or train.grad_clip."
            )
        # Evaluation and checkpoints are not part of the next interval's speed.
        return time.perf_counter()
