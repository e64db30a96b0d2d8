"""`tpulab.run`: a training that a page can watch and steer. Without a bridge the training runs unchanged.

run = tpulab.run("mnist", config, hyperparameters={"learning_rate": tpulab.hyper(3e-4, min=1e-6, max=1e-2)})
run.on_checkpoint(lambda step: save(state, step))
for batch in run.steps(loader):
    state, loss = train_step(state, batch, run.hyper.learning_rate)
    run.log(loss=loss)

`run.restore` resumes from the last checkpoint of the previous run, if that one was stopped or cut off.
"""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from types import FrameType, TracebackType
from typing import Any, TypeVar, get_args, overload

from tpulab.agent.process_agent import current_agent
from tpulab.agent.process_group import process_group
from tpulab.control.adapters import follow
from tpulab.control.branching import forget, planned
from tpulab.control.command import Command
from tpulab.control.controller import Controller, Handler
from tpulab.control.hyperparameters import Backend, Hyper, HyperparameterError, Hyperparameters
from tpulab.control.run_log import (
    Checkpoint,
    RunLog,
    checkpoint_of,
    checkpoint_of_run,
    last_checkpoint,
    log_path,
)
from tpulab.control.state import ControlState
from tpulab.figures.throughput import Effort, Throughput
from tpulab.measure.media import Allowance, is_medium, medium_of
from tpulab.measure.tracked_run import step_runs
from tpulab.telemetry.clocks import now_ns
from tpulab.telemetry.messages import BandKind, HyperValue, RunBranch, RunControl, RunState
from tpulab.telemetry.plain import figure, named, short, whole_number
from tpulab.telemetry.text import write_line
from tpulab.training.run_config import plain_config
from tpulab.training.run_steps import RunBlock, RunSteps
from tpulab.training.steered_run import SteeredRun

T = TypeVar("T")
H = TypeVar("H", bound=Handler)


class TrainingRun:
    """A run with controls. Created by `tpulab.run`. As a context manager, it ends the run."""

    def __init__(
        self,
        name: str | None,
        config: object,
        hyperparameters: Mapping[str, Hyper | HyperValue] | None,
        *,
        total: int | None,
        log: str | os.PathLike[str] | bool | None,
        backend: Backend | None,
        effort: Effort,
    ) -> None:
        self.name = name
        self.config = plain_config(config)
        self.total = total
        #: values as arrays (`run.hyper.name`) and as plain values (`run.hyper["name"]`)
        self.hyper = Hyperparameters(hyperparameters or {}, backend)
        self._effort = effort
        self._made_ns = now_ns()
        self._log_given = log
        self._log: RunLog | None = None
        self._tracked: SteeredRun | None = None
        self._pending_metrics: dict[str, Any] = {}
        self._media = Allowance()
        self._waiting_for_id: list[Callable[[str], None]] = []
        #: The step that the run resumed from, if it was resumed.
        self._resumed: int | None = None
        self._branch: RunBranch | None = None
        self.controller = Controller("", self.hyper)

    # -- the loop --------------------------------------------------------------------------------------

    def steps(
        self,
        iterable: Iterable[T] | AsyncIterable[T],
        *,
        total: int | None = None,
        watch: Callable[[], Any] | None = None,
    ) -> RunSteps[T]:
        """Iterates over `iterable`, one step per item: `for batch in run.steps(loader)`, or `async for`.

        Commands are applied between two steps. A pause holds the loop there; a stop ends it as if the
        iterable were exhausted. Several loops, such as one per epoch, form one run with one step count.

        Args:
            iterable: iterated by the loop. Waiting for its next item is input time.
            total: number of steps of this loop, if the iterable has no length.
            watch: as in `tpulab.steps`.
        """
        return RunSteps(self, iterable, whole_number("total", total), watch)

    def step(self) -> RunBlock:
        """A step without an iterable: `while not run.stopped: with run.step(): …`.

        Commands are applied before the block. The loop itself must stop when `run.stopped` is true.
        """
        return RunBlock(self)

    def log(self, values: Mapping[str, Any] | None = None, /, **metrics: Any) -> None:
        """Records numbers of the running step, such as `loss=loss`, or `{"train/loss": loss}`. Arrays are
        read later, once they are ready. Outside a step, the numbers count for the previous step, even
        after the last one.

        Text, figures of matplotlib, images of PIL and arrays of two dimensions and more are shown as such
        (`tpulab.image`): 16 at once, then one a second. An array on a device is read immediately, which
        waits for it.
        """
        metrics = named(values, metrics)
        for name, value in metrics.items():
            if is_medium(value):
                metrics[name] = medium_of(value, self._media)
        tracked = self._tracked
        if tracked is None or tracked.run.closed == 0:
            if tracked is not None and tracked.clock.is_open:
                tracked.metric(metrics)
            else:
                self._pending_metrics.update(metrics)
        elif tracked.clock.is_open:
            tracked.metric(metrics)
        else:
            tracked.figures(metrics)

    @property
    def stopped(self) -> bool:
        """Whether a stop was requested or the run is over. `run.steps` ends its loop automatically."""
        return self.controller.stops

    @property
    def state(self) -> ControlState:
        return self.controller.state

    @property
    def step_index(self) -> int:
        """Number of finished steps, which is the index of the running one."""
        return self._tracked.run.closed if self._tracked is not None else self._resumed or 0

    def __del__(self) -> None:
        # No other run can continue this one: a sweep that names each trial `run` ends one with the next.
        tracked = self.__dict__.get("_tracked")
        if tracked is None or tracked.run.ended or tracked.clock.is_open or sys.is_finalizing():
            return
        with contextlib.suppress(Exception):
            tracked.end("finished")

    def finish(self, state: RunState = "finished") -> None:
        """Ends the run. Otherwise it ends with its cell, with the process, or when it has no references any
        more. Idempotent."""
        if self._tracked is not None:
            self._tracked.end(state)

    def __copy__(self) -> TrainingRun:
        return self

    def __deepcopy__(self, memo: object) -> TrainingRun:
        # A copied trainer or configuration reports to the same run.
        return self

    def __reduce__(self) -> str:
        raise TypeError(f"the run {self.name!r} belongs to this process and cannot be pickled")

    def __enter__(self) -> TrainingRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish("finished" if kind is None else "failed")

    # -- requests to the run ---------------------------------------------------------------------------

    def on_checkpoint(self, function: H, *, every: int | None = None) -> H:
        """Sets the function that writes a checkpoint. It takes the step or nothing; its result is shown.

        It runs on the thread of the loop, between two steps, on a request of the page and after each `every`
        steps. If it raises an exception, the command has failed and the run continues. A coroutine function
        needs `async for`. Usable as a decorator.
        """
        every = whole_number("every", every)
        if every == 0:
            raise ValueError(f"`every` is a number of steps from 1 on, not {every}")
        self.controller.checkpoint_every = every
        self.controller.handle("checkpoint", function)
        return function

    def restore(self, load: Callable[[Checkpoint], Any]) -> int:
        """Calls `load` with the last checkpoint of the previous run, if that run did not finish.

        It was stopped, cut off, or failed. Where the page has requested a branch of a run with this log, it
        is the checkpoint that the page has chosen, and its value is set. Returns the step to continue with:
        `for step in run.steps(range(run.restore(load), total))`. 0: the previous run finished, wrote no
        checkpoint, or there was none. Runs belong together if
        they have the same `log`, or, without one, the same name and working directory. On a slice all
        hosts load the checkpoint that process 0 has logged.

        Raises:
            ValueError: the run has neither a name nor a log, or its first loop has started.
        """
        self._before_first_loop("restore")
        if self._log_given is False or (self._log_file is None and self.name is None):
            raise ValueError("run.restore needs to know the run before: give tpulab.run a name or `log`")
        answer = process_group.agree(self._checkpoint_to_restore() if process_group.is_first else None)
        if answer is None:
            return 0
        step, saved, parent, name, value = answer
        checkpoint = Checkpoint(step, saved)
        if parent is None:
            return self._load(checkpoint, load, "its last checkpoint")
        self._branch = {"run": parent, "step": step}
        if name is not None:
            try:
                self.set(name, value)
            except HyperparameterError as error:
                write_line(f"The branch changes no value: {error}")
        return self._load(checkpoint, load, "the checkpoint that the page has chosen")

    def _checkpoint_to_restore(self) -> list[Any] | None:
        """Step and text of a checkpoint; of a branch also the other run and its changes."""
        branch, name = planned(), self.name or ""
        if branch is not None:
            found = checkpoint_of_run(self._log_file, name, branch.run, branch.step)
            if found is not None:
                forget()
                return [found.step, found.saved, branch.run, branch.name, branch.value]
        found = last_checkpoint(self._log_file, name)
        return None if found is None else [found.step, found.saved, None, None, None]

    def branch(
        self,
        log: str | os.PathLike[str],
        load: Callable[[Checkpoint], Any],
        *,
        step: int | None = None,
    ) -> int:
        """Begins this run at a checkpoint of another one, to train on with something changed.

        Calls `load` with the checkpoint and returns its step, as `restore` does. The page lays the curves of
        both over one another.

        Args:
            log: the other run's log or its folder, or its name if its log is in the working directory.
            load: loads the checkpoint (`step`, `saved`).
            step: step of the checkpoint. Default: the last one.

        Raises:
            ValueError: the log has no such checkpoint, or the first loop of this run has started.
        """
        self._before_first_loop("branch")
        found = checkpoint_of(log, step) if process_group.is_first else None
        answer = process_group.agree(None if found is None else [found[0], found[1].step, found[1].saved])
        if answer is None:
            at = "" if step is None else f" at step {step}"
            raise ValueError(f"{os.fspath(log)!r} is no log with a checkpoint{at}")
        parent, *checkpoint = answer
        self._branch = {"run": parent, "step": checkpoint[0]}
        return self._load(Checkpoint(*checkpoint), load, f"a checkpoint of {os.fspath(log)}")

    def _before_first_loop(self, what: str) -> None:
        if self._tracked is not None:
            raise ValueError(f"run.{what} comes before the first loop of the run")

    def _load(self, checkpoint: Checkpoint, load: Callable[[Checkpoint], Any], source: str) -> int:
        load(checkpoint)
        self._resumed = self.controller.checkpointed = checkpoint.step
        where = f" ({checkpoint.saved})" if checkpoint.saved else ""
        write_line(f"{self.name or 'The run'} resumes at step {checkpoint.step}, from {source}{where}")
        return checkpoint.step

    @property
    def _log_file(self) -> str | os.PathLike[str] | None:
        """The requested log file; None: the run has its default log, or no log."""
        given = self._log_given
        return None if given is None or isinstance(given, bool) else given

    def on_evaluate(self, function: H) -> H:
        """Sets the function that evaluates; see `on_checkpoint`."""
        self.controller.handle("evaluate", function)
        return function

    def on_sample(self, function: H) -> H:
        """Sets the function that samples; see `on_checkpoint`."""
        self.controller.handle("sample", function)
        return function

    @overload
    def action(self, name: str) -> Callable[[H], H]: ...
    @overload
    def action(self, name: str, function: H) -> H: ...
    def action(self, name: str, function: H | None = None) -> H | Callable[[H], H]:
        """Adds a button of this name, for any action of the training; see `on_checkpoint`.

            run.action("full evaluation", evaluate_all)

        Also a decorator: `@run.action("full evaluation")`.

        Raises:
            ValueError: the name is empty or too long, or the run has too many actions.
        """
        if function is None:
            return lambda given: self.action(name, given)
        self.controller.handle_own(name, function)
        return function

    def apply_to(self, target: Any, **names: str) -> Any:
        """Applies hyperparameters to an optimizer, now and after each change.

        Args:
            target: a torch optimizer, or a function that takes the hyperparameters.
            names: optimizer setting to hyperparameter, for example `lr="learning_rate"` (the default).
        """
        return follow(self.controller, self.hyper, target, names)

    def set(self, name: str, value: HyperValue) -> None:
        """Changes a hyperparameter after the running step, or now if none is running. The change is logged.

        Raises:
            HyperparameterError: no hyperparameter has this name, or the value does not fit it.
        """
        self.hyper.check(name, value)
        tracked = self._tracked
        if tracked is not None and tracked.clock.is_open:
            self.controller.submit(Command("set", name, value))
        else:
            self.controller.set_now(name, value, self.step_index)

    def pause(self) -> None:
        """Requests a pause after this step."""
        self.controller.submit(Command("pause"))

    def resume(self) -> None:
        """Ends a pause. Call it from another thread."""
        self.controller.submit(Command("resume"))

    def stop(self) -> None:
        """Requests a stop after this step."""
        self.controller.submit(Command("stop"))

    @contextlib.contextmanager
    def band(self, kind: BandKind) -> Iterator[None]:
        """Marks work of the loop besides its steps: `with run.band("checkpoint"): …`.

        Raises:
            ValueError: `kind` is none of checkpoint, evaluate, sample, call, transfer and pause.
        """
        if kind not in get_args(BandKind):
            raise ValueError(f"a band is one of {', '.join(get_args(BandKind))}, not {kind!r}")
        began = now_ns()
        tracked = self._tracked if kind != "transfer" else None
        throughput = tracked.run.throughput if tracked is not None else None
        if tracked is not None and throughput is not None:
            throughput.bands_open += 1
            tracked.run.in_band_ns = tracked.run.in_band_ns or began
        try:
            yield
        except BaseException:
            self.add_band(kind, began, failed=True)
            raise
        else:
            self.add_band(kind, began)
        finally:
            if tracked is not None and throughput is not None:
                throughput.bands_open -= 1
                if throughput.bands_open == 0:
                    tracked.run.in_band_ns = None
                    if tracked.run.in_band:
                        tracked.run.in_band = False
                        tracked.changed()

    # -- for the loops ---------------------------------------------------------------------------------

    def begin_loop(self, frame: FrameType, length: int | None) -> SteeredRun:
        """A loop of this run starts on the calling thread."""
        step_runs.end_detected()
        tracked = self._tracked
        if tracked is None:
            tracked = self._tracked = self._announce(frame)
        if self.total is None and length is not None:
            total = tracked.run.closed + length
            if total != tracked.run.total:
                tracked.run.open_ended = tracked.run.total is not None
                tracked.run.total = total
                tracked.changed()
        self.go_on()
        return tracked

    def go_on(self) -> None:
        """A loop has a step: a run that an earlier cell or an exception has ended continues."""
        tracked = self._tracked
        if tracked is None:
            return
        if tracked.run.ended and not tracked.halted:
            self.controller.start()
        step_runs.keep(tracked)
        tracked.tracker.steered_in = tracked.tracker.cells.running()

    def when_announced(self, listener: Callable[[str], None]) -> None:
        """Calls `listener` with the id of the run: now, or when its first loop begins."""
        if self._tracked is not None:
            listener(self._tracked.run.id)
        else:
            self._waiting_for_id.append(listener)

    def take_pending_metrics(self) -> dict[str, Any]:
        """Metrics that were logged between two steps."""
        later, self._pending_metrics = self._pending_metrics, {}
        return later

    @property
    def log_file(self) -> str | None:
        return str(self._log.path) if self._log is not None else None

    def describe(self) -> RunControl:
        control: RunControl = {
            "state": self.controller.state,
            "actions": self.controller.actions,
            "own": list(self.controller.own),
            "hyperparameters": self.hyper.describe(),
            "config": self.config,
            "log": self.log_file,
        }
        if self._branch is not None:
            control["branch"] = self._branch
        return control

    def _announce(self, frame: FrameType) -> SteeredRun:
        agent = current_agent()
        reference = weakref.ref(self)

        def control() -> RunControl | None:
            run = reference()
            return run.describe() if run is not None else None

        self.controller.start()
        tracked = SteeredRun(agent.tracker, self.name, self.total, frame, control)
        run = tracked.run
        run.closed = run.recorded = self._resumed or 0
        tracked.agent, tracked.controller = agent, weakref.ref(self.controller)
        self.controller.belongs_to(run.id, tracked)
        # On a slice all hosts report the same, perhaps in the same folder.
        if self._log_given is not False and process_group.is_first:
            path = log_path(self._log_file, run.name, run.id)
            self._log = tracked.log = RunLog(path, self._header(tracked), agent.warn)
            # A working directory that was deleted has no path.
            with contextlib.suppress(OSError):
                agent.requested.trace_folder = path.parent.absolute() / "traces"
            if self._log_file is not None or agent.keeper is not None:
                self._log.start()
        run.on_progress = tracked.progressed
        run.throughput = Throughput(self._effort, agent.compiles.programs.find)
        run.throughput.prepared_ns = self._made_ns
        agent.commands.add(run.id, self.controller)
        agent.listen_for_commands()
        tracked.changed()
        for waiting in self._waiting_for_id:
            waiting(run.id)
        return tracked

    def _header(self, tracked: SteeredRun) -> Callable[[], Mapping[str, Any]]:
        # Without a reference to this run: the log must not keep it alive.
        run, hyper = tracked.run, self.hyper
        fixed = {"name": run.name, "run": run.id, "resumed": self._resumed, "config": self.config}
        return lambda: {**fixed, "hyperparameters": dict(hyper)}

    def add_band(self, kind: BandKind, began: int, *, failed: bool = False) -> None:
        """Ends such work that began at this moment of `tpulab.telemetry.clocks`."""
        if self._tracked is not None:
            self._tracked.band(kind, began, failed=failed)


def run(
    name: str | None = None,
    config: object = None,
    *,
    hyperparameters: Mapping[str, Hyper | HyperValue] | None = None,
    total: int | None = None,
    log: str | os.PathLike[str] | bool | None = None,
    backend: Backend | None = None,
    flops_per_step: float | None = None,
    tokens_per_step: float | None = None,
    samples_per_step: float | None = None,
    peak_flops: float | None = None,
    updates_per_step: float | None = None,
) -> TrainingRun:
    """Creates a run that the page can control while its cell is busy.

    Args:
        name: name of the run. Default: the function, cell or script of its loop.
        config: configuration of the run: a mapping (also of ml_collections or OmegaConf), a dataclass, an
            object with attributes, a class or a module.
        hyperparameters: name to value, or to `tpulab.hyper(value, min=…, max=…)`; these can be changed.
        total: number of steps of all loops, if they have no length.
        log: file (`….jsonl`) or folder of the run log, for example the checkpoint folder; False: no log.
            Default: `.tpulab-runs/NAME/` in the working directory.
        backend: framework of the hyperparameter arrays. Default: the imported one.
        flops_per_step: floating-point operations of a step on all devices, for the MFU. Default: counted.
        tokens_per_step, samples_per_step: for the throughput.
        updates_per_step: of the parameters, where a step is several (a `lax.scan` of 100 in one call).
        peak_flops: peak operations per second of one device. Default: the peak of the chip, if known.

    Raises:
        HyperparameterError: the definition of a hyperparameter is invalid.
        ValueError: a figure is not finite, or below 0.
        TypeError: the name is not text, or `log` is no path.
    """
    if not isinstance(name, (str, type(None))):
        raise TypeError(f"the name of a run is text, not {short(name)}")
    if not isinstance(log, (str, os.PathLike, bool, type(None))):
        raise TypeError(f"`log` is the path of a file or folder, or False, not {short(log)}")
    return TrainingRun(
        name,
        config,
        hyperparameters,
        total=whole_number("total", total),
        log=log,
        backend=backend,
        effort=Effort(
            figure("flops_per_step", flops_per_step),
            figure("tokens_per_step", tokens_per_step),
            figure("samples_per_step", samples_per_step),
            figure("peak_flops", peak_flops),
            figure("updates_per_step", updates_per_step),
        ),
    )
