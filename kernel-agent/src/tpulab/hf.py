"""`tpulab.hf.Callback`: a run of Hugging Face's Trainer that a page can watch and steer.

    from tpulab.hf import Callback
    trainer = Trainer(..., callbacks=[Callback(log=training_args.output_dir)])

A step is an optimizer step, from its beginning to the beginning of the next: the Trainer loads batches, and
torch_xla compiles and runs traced graphs, between them. Evaluations and checkpoints are bands of their
step. Pause, stop, checkpoint, evaluate and the learning rate act between two steps, through the Trainer's
own control. transformers is imported with this module, not with `tpulab`.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from tpulab.control.hyperparameters import Hyper, hyper
from tpulab.telemetry.clocks import now_ns
from tpulab.telemetry.messages import BandKind, HyperValue
from tpulab.telemetry.text import write_line
from tpulab.training.run import TrainingRun, run
from tpulab.training.run_steps import RunBlock

if TYPE_CHECKING:
    _Base = object
else:
    _Base = TrainerCallback


class Callback(_Base):
    """Pass one to `Trainer(callbacks=[…])`.

    Args:
        name: name of the run. Default: the model's class.
        hyperparameters: hyperparameters besides `learning_rate`, which is always included.
        log: as in `tpulab.run`. Default: the Trainer's `output_dir`, next to its checkpoints.
        learning_rate: its bounds, from `tpulab.hyper`. The schedule continues, scaled by the new value.

    Changing the learning rate multiplies the base rates of the schedule.

    Raises:
        LonelyProcessError: when a training begins whose first reduction would end the process.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        hyperparameters: Mapping[str, Hyper | HyperValue] | None = None,
        log: str | os.PathLike[str] | bool | None = None,
        learning_rate: Hyper | None = None,
    ) -> None:
        self._name = name
        self._given = dict(hyperparameters or {})
        self._log = log
        self._learning_rate = learning_rate
        self._block: RunBlock | None = None
        self._wants: set[str] = set()
        #: the time of the Trainer's previous call: a part that it reports as over began no earlier
        self._called_ns = 0
        self._evaluates_since: int | None = None
        #: the run, from the beginning of the training on
        self.run: TrainingRun | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Creates the run, and reports it."""
        if getattr(getattr(args, "device", None), "type", "") == "xla":
            _refuse_lonely_process()
        rate = self._learning_rate or hyper(float(args.learning_rate), min=0.0)
        model = kwargs.get("model")
        made = self.run = run(
            self._name or type(model).__name__,
            args.to_sanitized_dict() if hasattr(args, "to_sanitized_dict") else None,
            hyperparameters={"learning_rate": rate, **self._given},
            total=int(state.max_steps) or None,
            log=args.output_dir if self._log is None else self._log,
            backend="python",
        )
        made.on_checkpoint(lambda: self._want("save"))
        made.on_evaluate(lambda: self._want("evaluate"))
        optimizer, scheduler = kwargs.get("optimizer"), kwargs.get("lr_scheduler")
        initial = float(rate.value)
        bases = [float(base) for base in getattr(scheduler, "base_lrs", [])]
        groups = [float(group["lr"]) for group in getattr(optimizer, "param_groups", [])]

        def follow(values: Mapping[str, Any]) -> None:
            share = float(values["learning_rate"]) / initial if initial else 1.0
            if bases and scheduler is not None:
                fresh = [rate * share for rate in _schedule(scheduler, bases)]
                scheduler.base_lrs = [base * share for base in bases]
            else:
                fresh = [group * share for group in groups]
            for group, value in zip(getattr(optimizer, "param_groups", []), fresh, strict=False):
                _set_rate(group, value)

        made.controller.apply_to(_after_the_first(follow))
        # Loaders start and programs compile before the first step.
        made.begin_loop(sys._getframe(1), None)

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """The fused optimizer, the default of recent versions, refuses XLA devices."""
        optimizer = str(getattr(getattr(args, "optim", None), "value", getattr(args, "optim", "")))
        if optimizer == "adamw_torch_fused" and getattr(args.device, "type", "") == "xla":
            args.optim = type(args.optim)("adamw_torch")
            write_line('The fused AdamW does not run on XLA: optim="adamw_torch" is used instead.')

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        """The previous step is over. Commands are applied here; a pause holds the Trainer here."""
        if self.run is not None:
            self._end_step()
            self._block = self.run.step()
            self._block.__enter__()
            self._pass_on(control)
        return control

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        """The optimizer has stepped; the time until the next step belongs to this one."""
        self._called_ns = now_ns()
        self._pass_on(control)
        return control

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """An evaluation continues."""
        if self._evaluates_since is None:
            self._evaluates_since = self._called_ns or now_ns()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """An evaluation is over."""
        began, self._evaluates_since = self._evaluates_since or self._called_ns, None
        self._band("evaluate", began)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """A checkpoint has been written."""
        self._band("checkpoint", self._called_ns)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:  # noqa: ARG002
        """Figures of the Trainer: loss, learning rate, evaluation results."""
        if self._evaluates_since is None:
            self._called_ns = now_ns()
        if self.run is not None and isinstance(logs, Mapping):
            self.run.log(**{name: value for name, value in logs.items() if isinstance(value, (int, float))})

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Ends the run. A training that raises ends it with its cell, as failed."""
        self._end_step()
        if self.run is not None:
            self.run.finish()

    def _end_step(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(None, None, None)

    def _band(self, kind: BandKind, began_ns: int) -> None:
        if self.run is not None and began_ns:
            self.run.add_band(kind, began_ns)
        self._called_ns = now_ns()

    def _want(self, what: str) -> str:
        self._wants.add(what)
        return "The Trainer does this after the current step."

    def _pass_on(self, control: Any) -> None:
        wants, self._wants = self._wants, set()
        if "save" in wants:
            control.should_save = True
        if "evaluate" in wants:
            control.should_evaluate = True
        if self.run is not None and self.run.stopped:
            control.should_training_stop = True


class LonelyProcessError(RuntimeError):
    """Accelerate treats the devices of this process as processes, and would wait for the others."""

    code = "LONELY_PROCESS"


def _refuse_lonely_process() -> None:
    """Where torch_xla shows one process several devices, Accelerate makes each of them a replica. Reductions
    then wait for processes that were never started, and XLA ends this one. A world size that was read before
    the replicas exist stays at one process.
    """
    # Accelerate expects one process for each device, or (on chips with two cores) one thread.
    if threading.current_thread() is not threading.main_thread():
        return
    runtime: Any = importlib.import_module("torch_xla.runtime")
    devices = runtime.addressable_device_count()
    if runtime.is_spmd() or devices == 1 or runtime.world_size() == 1:
        return
    raise LonelyProcessError(
        f"Accelerate treats the {devices} devices that XLA shows this one process as separate processes, and "
        "would wait for the others. Restart the kernel and call torch_xla.runtime.world_size() before you "
        "create TrainingArguments, or start it with CPU_NUM_DEVICES=1."
    )


def _after_the_first(apply: Any) -> Any:
    """The rates at the start are the Trainer's own: nothing is set before a change."""
    calls = iter((lambda _: None,))
    return lambda values: next(calls, apply)(values)


def _schedule(scheduler: Any, bases: list[float]) -> list[float]:
    """The rates that the schedule would have reached with its first base rates."""
    reached = [float(rate) for rate in scheduler.get_last_lr()]
    present = [float(base) for base in scheduler.base_lrs]
    return [
        rate / now * base if now else base for rate, now, base in zip(reached, present, bases, strict=False)
    ]


def _set_rate(group: Any, value: float) -> None:
    fill = getattr(group["lr"], "fill_", None)
    if callable(fill):
        fill(value)
    else:
        group["lr"] = value
