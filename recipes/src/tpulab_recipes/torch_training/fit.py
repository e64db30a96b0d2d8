"""The training loop of the recipes in PyTorch: batches in, steps out. It prints what will be trained, shows
progress, logs, saves by steps and by time, evaluates, samples, and resumes; a recipe has the step."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import tyro

from tpulab_recipes.common import interruption
from tpulab_recipes.common.errors import ConfigError, TrainingDiverged
from tpulab_recipes.common.inputs import checked_count
from tpulab_recipes.common.interruption import Interrupted, stoppable
from tpulab_recipes.common.log_writers import open_writers
from tpulab_recipes.common.preparation import require_writable
from tpulab_recipes.common.progress import Progress, Silent, Terminal
from tpulab_recipes.common.steering import Run, around, open_run
from tpulab_recipes.common.storage import only_writer
from tpulab_recipes.runtime import Backend
from tpulab_recipes.runtime.too_large import refuse_too_large
from tpulab_recipes.torch_training.checkpoint import load_checkpoint, save_checkpoint
from tpulab_recipes.torch_training.learning_rate import fitting_warmup


@dataclass(frozen=True, kw_only=True)
class Loop:
    """How a training is shown and saved."""

    save_every: int = 0
    """Steps between two checkpoints, besides those at the end of epochs; 0: none."""
    save_minutes: float = 10.0
    """Minutes after which a checkpoint is written in any case, so that a preempted machine loses no more;
    0: never."""
    log_every: int = 10
    """Steps between two rows of figures; the device is waited for only then."""
    evaluate_every: int = 0
    """Steps between two evaluations, besides those at the end of epochs; 0: none."""
    sample_every: int = 0
    """Steps between two samples; 0: none."""
    tensorboard: bool = False
    """Log for TensorBoard as well."""
    wandb_project: str = ""
    """Log to this project of Weights & Biases as well."""
    wandb_run: str = ""
    """Name of the run there."""
    quiet: bool = False
    """Show no progress."""

    def __post_init__(self) -> None:
        for name in ("save_every", "evaluate_every", "sample_every"):
            checked_count(name, getattr(self, name), 0)
        checked_count("log_every", self.log_every)
        if not 0 <= self.save_minutes < math.inf:
            raise ConfigError("save_minutes", f"{self.save_minutes} is not a number of minutes from 0.")

    def check(self, output: str) -> None:
        """Raises an error of a recipe where nothing can be written to `output`, or nothing logged: before the
        work. Closes what it opened."""
        require_writable(output)
        if self.wandb_project:
            from tpulab_recipes.common.log_writers import checked_wandb

            checked_wandb()


OmittedLoop = tyro.conf.OmitArgPrefixes[Loop]


@dataclass
class Training:
    """The part of a recipe that `fit` needs.

    Args:
        trainer: has `config`, `backend`, `model`, `steps_done`, `rate` (of the last step), `state`,
            `load_state` and `train_step(batch)`, which returns its loss or a mapping of figures.
        batches: all batches from a step to the end.
        data: what is trained on, in words, for the first line.
        fingerprint: of that data; a change since the checkpoint is reported.
        evaluate: figures of held-out data, at the end of epochs.
        evaluates_at: whether that is due at the end of an epoch; None: with each checkpoint.
        sample: writes samples, and returns what it wrote in words.
        saves_at: whether a checkpoint and an evaluation are due at the end of an epoch, counted from 1.
        extra: more for the checkpoint.
        step: trains one batch and returns figures, instead of the trainer's `train_step`, which it calls.
        write: writes a checkpoint of its own form; None: `save_checkpoint`.
        resumes: whether to resume from the newest checkpoint of the output folder.
        epoch_means: whether figures at the end of an epoch are means over it; else they are of its last step.
        named: the names under which figures are logged, those of an epoch (`True`) and those of a step.
        log: takes the figures of a step, instead of the writers that are opened here.
        remedy: what to change where a step does not fit the memory of a device, a sentence.
        run, progress: instead of those that are opened here.
    """

    name: str
    trainer: Any
    batches: Callable[[int], Iterable[Any]]
    in_epoch: int
    epochs: int
    output: str
    data: str = ""
    fingerprint: str = ""
    warmup_steps: int = 0
    evaluate: Callable[[], Mapping[str, float]] | None = None
    sample: Callable[[], str] | None = None
    saves_at: Callable[[int], bool] = lambda _: True
    extra: Callable[[], Mapping[str, Any]] = dict
    shown: Callable[[Mapping[str, float]], str] = field(default=lambda row: f"loss {row['loss']:.3f}")
    evaluates_at: Callable[[int], bool] | None = None
    step: Callable[[Any], Any] | None = None
    write: Callable[[], object] | None = None
    resumes: bool = True
    epoch_means: bool = False
    named: Callable[[Mapping[str, float], bool], Mapping[str, float]] | None = None
    run: Run | None = None
    log: Callable[[int, Mapping[str, float]], None] | None = None
    progress: Progress | None = None
    remedy: str = "Use a smaller batch_size."
    ahead: int = 2
    """Batches that a thread keeps ready for the device."""


def fit(training: Training, loop: Loop) -> dict[str, object]:
    """Trains from the newest checkpoint of the output folder, or from the beginning, to the last epoch.
    Returns the figures of the end. Raises `TrainingDiverged` when the loss is not finite, `ConfigError`
    where the checkpoint is further than the last epoch, and `DeviceRuntimeError` (`too_large`) where a step
    needs more memory than a device has."""
    alone = training.output and training.trainer.backend.world().is_main
    with only_writer(training.output) if alone else nullcontext():
        return _fit(training, loop)


def _fit(training: Training, loop: Loop) -> dict[str, object]:
    found = _Loop(training, loop)
    found.introduce()
    found.resume()
    done = training.trainer.steps_done
    if done > found.total:
        raise ConfigError(
            "epochs",
            f"{training.epochs} are {found.total:,} steps, and the checkpoint in {training.output} has "
            f"{done:,}: ask for more epochs, or train into another folder.",
        )
    if done == found.total and training.trainer.backend.world().is_main:
        print(f"The checkpoint in {training.output} is at the last step: nothing is left to train.")
    with refuse_too_large(f"A step of {training.name}", training.remedy):
        return found.run(found.total)


def fit_epoch(training: Training, loop: Loop) -> dict[str, object]:
    """The rest of an epoch, as `fit` trains it, without its first lines. Returns its figures, or nothing
    where it was stopped."""
    done, in_epoch = training.trainer.steps_done, training.in_epoch
    return _Loop(training, loop).run((done // in_epoch + 1) * in_epoch)


class _Loop:
    def __init__(self, training: Training, loop: Loop) -> None:
        self.t, self.loop, self.trainer = training, loop, training.trainer
        self.backend: Backend = training.trainer.backend
        self.total = training.epochs * training.in_epoch
        self.result: dict[str, object] = {}
        self.saved_step, self.saved_at = -1, time.monotonic()
        # The clock of the step time: without evaluations, samples and checkpoints.
        self.busy_s, self.timed = 0.0, 0

    def run(self, until: int) -> dict[str, object]:
        """Trains to that step. Raises `Interrupted` after it has saved the step of a signal."""
        with stoppable():
            return self._run(until)

    def _run(self, until: int) -> dict[str, object]:
        t, trainer, loop, main = self.t, self.trainer, self.loop, self.backend.world().is_main
        run, step_of, left = self._steered(), t.step or trainer.train_step, until - trainer.steps_done
        self.progress = t.progress or (Terminal() if main and not loop.quiet else Silent())
        self.writers = []
        if t.log is None and main and t.output:
            logs = f"{t.output.rstrip('/')}/logs"
            self.writers = open_writers(
                logs, loop.tensorboard, loop.wandb_project, loop.wandb_run, trainer.config
            )
        if t.progress is None:
            self.progress.start("training", left)
        rows = map(self.backend.own_rows, islice(t.batches(trainer.steps_done), left))
        began, found, of_epoch = time.perf_counter(), None, []  # type: float, Any, list[Any]
        for batch in run.steps(self.backend.batches(rows, ahead=t.ahead), total=left):
            self._steer(run)
            found = step_of(batch)
            step = trainer.steps_done
            run.log(loss=_loss_of(found))
            at_end, self.timed = step % t.in_epoch == 0, self.timed + 1
            logged = step % loop.log_every == 0 or (at_end and not t.epoch_means)
            row = self._read(found) if logged else {}
            figures = dict(self._named(row, False)) if logged else {}
            if t.epoch_means:
                of_epoch.append(found)
                if at_end:
                    row, of_epoch = self._means(of_epoch), []
                    figures |= self._named(row, True)
            self.busy_s += time.perf_counter() - began
            note = ""
            if row:
                note = (
                    f"{t.shown(row)}, rate {trainer.rate:.2e}, {1e3 * self.busy_s / self.timed:.0f} ms a step"
                )
            self._after(step, at_end, row, figures)
            self.progress.advance(1, note)
            if self._is_stopped(step):
                self.save()
                saved = f"saved in {t.output}" if t.output else "but without a folder to save in"
                raise Interrupted(f" after step {step:,}, {saved}")
            began = time.perf_counter()
        if t.progress is None:
            self.progress.finish()
        if trainer.steps_done < until and found is not None:
            self.save()  # stopped from the page; a later run resumes here
        for writer in self.writers:
            writer.close()
        return self.result

    def _is_stopped(self, step: int) -> bool:
        if self.backend.world().process_count == 1:
            return interruption.requested()
        # The processes of a group stop at the same step: the main one's signal counts.
        return step % self.loop.log_every == 0 and bool(
            self.backend.from_main(lambda: [interruption.requested()])[0]
        )

    def introduce(self) -> None:
        """Prints the first lines: the model, the device, the data, and warnings."""
        t, world = self.t, self.backend.world()
        if not world.is_main:
            return
        parameters = list(self.trainer.model.parameters())
        count = sum(each.numel() for each in parameters)
        trained = sum(each.numel() for each in parameters if each.requires_grad)
        share = "all trained" if trained == count else f"{trained:,} of them trained"
        print(f"{t.name}: {count:,} parameters, {share}; {t.data}{self.total} steps", flush=True)
        report_warmup(t.warmup_steps, self.total)
        devices = len(self.backend.devices())
        if world.one_program and world.global_devices < devices:
            print(
                f"note: {world.global_devices} of {devices} chips is used; give --spmd for all of them.",
                file=sys.stderr,
            )

    def resume(self) -> None:
        if not (self.t.output and self.t.resumes):
            return
        found = load_checkpoint(self.t.output, self.backend)
        if found is None:
            return
        step, state = found
        self.trainer.load_state(state)
        report_resumed(step, state.get("data"), self.t.fingerprint)
        self.saved_step = step

    def _steered(self) -> Run:
        rate = self.trainer.peak
        run = self.t.run or open_run(
            self.t.name, self.trainer.config, {"learning_rate": rate}, {"learning_rate": around(rate)}
        )
        run.on(checkpoint=self.save, evaluate=self._evaluated, sample=self.t.sample or (lambda: "no samples"))
        self._initial = rate
        return run

    def _steer(self, run: Run) -> None:
        """A peak rate that was changed from the page; runs that the recipe opened itself are left alone."""
        if self.t.run is not None:
            return
        rate = float(run.hyper()["learning_rate"])
        if not math.isclose(rate, self._initial, rel_tol=1e-6):
            self.trainer.peak = self._initial = rate

    def _read(self, found: Any) -> dict[str, float]:
        figures = found if isinstance(found, Mapping) else {"loss": found}
        return self._finite(self.backend.reduce_metrics(figures))

    def _means(self, found: list[Any]) -> dict[str, float]:
        """Over the steps of an epoch, fetched at once."""
        rows = self.backend.to_host(found)
        means = {name: sum(float(row[name]) for row in rows) / len(rows) for name in rows[0]}
        return self._finite(self.backend.reduce_metrics(means))

    def _named(self, row: Mapping[str, float], of_epoch: bool) -> Mapping[str, float]:
        if self.t.named is not None:
            return self.t.named(row, of_epoch)
        rate, epoch = self.trainer.rate, self.trainer.steps_done / self.t.in_epoch
        return {**row, "learning_rate": rate, "epoch": epoch}

    def _finite(self, row: dict[str, float]) -> dict[str, float]:
        if not all(map(math.isfinite, row.values())):
            raise TrainingDiverged(
                f"The loss is not finite at step {self.trainer.steps_done}: lower learning_rate, check the "
                "data, or use float32. The checkpoints before it are unchanged."
            )
        return row

    def _write(self, figures: Mapping[str, float]) -> None:
        if self.t.log is not None:
            self.t.log(self.trainer.steps_done, figures)
        for writer in self.writers:
            writer.figures(self.trainer.steps_done, figures)

    def _after(self, step: int, at_end: bool, row: Mapping[str, float], figures: dict[str, float]) -> None:
        """Evaluation, figures, samples and checkpoints that are due after a step."""
        t, loop, epoch = self.t, self.loop, step // self.t.in_epoch
        last = step == self.total
        due = at_end and (t.saves_at(epoch) or last)
        checks = at_end and (due if t.evaluates_at is None else t.evaluates_at(epoch) or last)
        evaluated: Mapping[str, float] = {}
        if t.evaluate is not None and (checks or (loop.evaluate_every and step % loop.evaluate_every == 0)):
            evaluated = t.evaluate()
        if figures or evaluated:
            self._write({**figures, **evaluated})
        if at_end:
            step_ms = 1e3 * self.busy_s / self.timed
            self.result = {"epochs": epoch, **row, "step_ms": step_ms, **evaluated}
        if checks:
            scores = "".join(
                f", {name.replace('_', ' ').replace('f1', 'F1')} {value:.3f}"
                for name, value in evaluated.items()
            )
            print(f"epoch {epoch}: {t.shown(row)}{scores}, {step_ms:.0f} ms a step", flush=True)
            self.busy_s, self.timed = 0.0, 0
        if t.sample is not None and (last or (loop.sample_every and step % loop.sample_every == 0)):
            written = t.sample()
            if self.backend.world().is_main:
                print(f"sample: {written}", flush=True)
        if due or (loop.save_every and step % loop.save_every == 0) or self._time_to_save(step):
            self.save()

    def _time_to_save(self, step: int) -> bool:
        loop = self.loop
        if not loop.save_minutes or (self.backend.world().process_count > 1 and step % loop.log_every):
            return False
        # The processes of a group save together: the clock is the main one's.
        passed = self.backend.from_main(lambda: [time.monotonic() - self.saved_at])[0]
        return bool(passed >= 60 * loop.save_minutes)

    def _evaluated(self) -> dict[str, float]:
        if self.t.evaluate is None:
            return {}
        found = dict(self.t.evaluate())
        self._write(found)
        return found

    def save(self) -> str:
        """Writes a checkpoint of this step, unless there is one."""
        step = self.trainer.steps_done
        if not self.t.output:
            return "no output folder"
        if self.saved_step != step:
            if self.t.write is not None:
                self.t.write()
            else:
                state = {**self.trainer.state(), "data": self.t.fingerprint, **self.t.extra()}
                save_checkpoint(self.backend, self.t.output, step, state)
            for writer in self.writers:
                writer.flush()
        self.saved_step, self.saved_at = step, time.monotonic()
        return f"step-{step:08d}.pt"


def report_resumed(step: int, before: str | None, now: str) -> None:
    """Prints where a run resumes, and whether its data have changed (fingerprints)."""
    print(f"resuming after step {step}", flush=True)
    if before and now and before != now:
        print(
            "note: the data have changed since that checkpoint; batches are now made of the new ones.",
            file=sys.stderr,
            flush=True,
        )


def report_warmup(requested: int, total: int) -> None:
    """Prints the shortened warm-up, where it was not shorter than the run."""
    warmup = fitting_warmup(requested, total)
    if warmup != requested:
        print(
            f"warmup_steps: the warm-up of {requested} steps is not shorter than the run of {total}; the "
            f"rate would end at {min(1.0, total / requested):.0%} of its peak. It is shortened to {warmup}; "
            "give --warmup-steps, or more --epochs.",
            file=sys.stderr,
            flush=True,
        )


def _loss_of(found: Any) -> Any:
    return found if not isinstance(found, Mapping) else next(iter(found.values()))


def require_rows(batch_size: int, backend: Backend) -> None:
    """Raises `ConfigError` for a batch that the devices cannot share evenly: before anything is prepared."""
    world = backend.world()
    devices = world.global_devices if world.one_program else world.process_count
    if batch_size % devices:
        raise ConfigError(
            "batch_size",
            f"a batch of {batch_size} cannot be divided among {devices} devices; give --batch-size "
            f"{-(-batch_size // devices) * devices}.",
        )
