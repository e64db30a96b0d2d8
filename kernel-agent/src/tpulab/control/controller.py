"""Steers one run: accepts commands on any thread and applies them on the loop's thread, between two steps.

A command is accepted or refused immediately. Accepted commands wait, in order, for the next boundary; at
most `MAX_WAITING` wait. A command whose run ends first expires. A decision is never made twice.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from tpulab.control.command import Command, ControlRefusedError
from tpulab.control.hyperparameters import HyperparameterError, Hyperparameters
from tpulab.control.state import ENDED, ControlEvent, ControlState, after, is_allowed
from tpulab.telemetry.clocks import now_ns
from tpulab.telemetry.messages import ControlAction, ControlMessage, HyperValue
from tpulab.telemetry.plain import short
from tpulab.telemetry.text import ERROR_LENGTH, error_text

MAX_WAITING = 256
#: How long a pause sleeps at a time: an interrupt is noticed immediately, a lost signal costs no more.
PAUSE_TURN_S = 0.5
ASYNC_TURN_S = 0.02
#: The other hosts of a slice answer within milliseconds; a lost lead must not hold a loop for ever.
HOLD_S = 10.0
_HANDLER_ACTIONS: tuple[ControlAction, ...] = ("checkpoint", "evaluate", "sample", "call")
#: Limits of the user's own actions of a run, and of the length of their names.
MAX_OWN, OWN_LENGTH = 32, 60

Handler = Callable[..., Any]


class ControlListener:
    """The reports of a controller. `reported` and `changed` may be called with its lock held: they must not
    call back."""

    def reported(self, message: ControlMessage) -> None:
        """The state of a command has changed."""

    def changed(self) -> None:
        """State, hyperparameters or actions have changed."""

    def band(self, kind: Any, began_ns: int, *, failed: bool = False) -> None:
        """A pause or a handler is over."""

    def waits(self) -> None:
        """The run is paused: called at intervals on the thread of the loop."""


class Controller:
    """For one run. `submit` may be called on any thread, everything else on the thread of the loop."""

    def __init__(
        self,
        run_id: str,
        hyperparameters: Hyperparameters,
        listener: ControlListener | None = None,
    ) -> None:
        self._run_id = run_id
        self._hyper = hyperparameters
        #: the recipient of reports; none before the run has been announced
        self._listener = listener or ControlListener()
        self._handlers: dict[ControlAction, Handler] = {}
        #: the user's additional actions, by name
        self.own: dict[str, Handler] = {}
        self._appliers: list[Callable[[Hyperparameters], None]] = []
        # Reentrant: a report creates garbage, and a finalizer may end this very run.
        self._lock = threading.RLock()
        self._waiting: deque[Command] = deque()
        self._news = threading.Event()
        #: the state after all waiting commands have been applied
        self._ahead: ControlState = "idle"
        self.state: ControlState = "idle"
        #: the step of the last boundary that the loop reached
        self._reached = -1
        #: a checkpoint is due each time so many steps are finished; None: only on request
        self.checkpoint_every: int | None = None
        #: the step of the newest checkpoint, or the step that the run resumed from
        self.checkpointed = 0
        #: the boundary at which the loop waits for a command that all hosts apply there; None: none is due
        self._fence: int | None = None

    @property
    def actions(self) -> list[ControlAction]:
        """The possible requests."""
        known: list[ControlAction] = ["pause", "resume", "stop"]
        if len(self._hyper):
            known.append("set")
        known += [action for action in _HANDLER_ACTIONS if action in self._handlers]
        return [*known, "call"] if self.own else known

    def handle(self, action: ControlAction, handler: Handler) -> None:
        """Registers the function for a checkpoint, an evaluation or a sample. Raises `TypeError`."""
        self._handlers[action] = _callable(handler)
        self._listener.changed()

    def handle_own(self, name: str, handler: Handler) -> None:
        """Registers an action of the user's own. Raises `ValueError` and `TypeError`."""
        if not isinstance(name, str) or not 0 < len(name.strip()) <= OWN_LENGTH:
            raise ValueError(f"an action has a name of 1 to {OWN_LENGTH} characters, not {short(name)}")
        if len(self.own) >= MAX_OWN and name not in self.own:
            raise ValueError(f"a run has at most {MAX_OWN} actions of its own")
        self.own[name] = _callable(handler)
        self._listener.changed()

    def apply_to(self, applier: Callable[[Hyperparameters], None]) -> None:
        """Calls `applier` now and after each change of a hyperparameter, between two steps."""
        self._appliers.append(applier)
        applier(self._hyper)

    def belongs_to(self, run_id: str, listener: ControlListener) -> None:
        """The run has been announced under this id."""
        self._run_id, self._listener = run_id, listener

    def set_now(self, name: str, value: HyperValue, step: int) -> None:
        """The code of the loop itself changes a hyperparameter. Raises `HyperparameterError`."""
        self._hyper.check(name, value)
        self._apply_at_once(Command("set", name, value, self._run_id), step)

    def submit(self, command: Command) -> ControlMessage:
        """Accepts a command, or refuses it; on any thread. The answer is reported as well."""
        command.run = self._run_id
        try:
            with self._lock:
                before = self.state
                self._take(command)
                answer = command.message("accepted")
                # Reported before the loop can apply it: reports come in the order of the events.
                self._listener.reported(answer)
                if self.state != before:
                    self._listener.changed()
                self._waiting.append(command)
        except (ControlRefusedError, HyperparameterError) as error:
            answer = command.message("refused", reason=str(error))
            self._listener.reported(answer)
        if command.at is not None:
            self._fence = None
        self._news.set()
        return answer

    def fence(self) -> int:
        """The first step at which a command can still be applied; the loop waits there for it."""
        while True:
            # A paused loop does not advance, and applies commands where it is.
            fence = self._reached if self.state == "paused" else self._reached + 1
            self._fence = fence
            # The loop may have passed it meanwhile, without having seen it.
            if self._reached < fence or self.state == "paused":
                return fence

    def _take(self, command: Command) -> None:
        action = command.action
        if self.state in ENDED:
            raise ControlRefusedError(f"The run is over ({self.state}).")
        if len(self._waiting) >= MAX_WAITING:
            raise ControlRefusedError(
                f"{MAX_WAITING} commands are already waiting for the end of the step; try again after it."
            )
        if self._ahead == "stopping":
            raise ControlRefusedError("The run already stops after this step.")
        if action == "pause" and self._ahead in ("pausing", "paused"):
            raise ControlRefusedError("The run is already paused, or will be after this step.")
        if action == "resume" and self._ahead not in ("pausing", "paused"):
            raise ControlRefusedError("The run is not paused.")
        if action == "call" and command.name not in self.own:
            known = ", ".join(self.own) or "none"
            raise ControlRefusedError(f"This run has no action {command.name!r}; it has: {known}.")
        if action in _HANDLER_ACTIONS and action != "call" and action not in self._handlers:
            raise ControlRefusedError(
                f"This run has no function for it: set one with run.on_{action}(function)."
            )
        if action == "set":
            command.value = self._hyper.check(command.name, command.value)
        if action in ("branch", "free", "memory", "profile"):
            raise ControlRefusedError(f"`{action}` is a command for the kernel, not for a run.")
        event = _REQUEST_EVENTS.get(action)
        if event is not None:
            self._ahead = after(self._ahead, event)
            if is_allowed(self.state, event) and event != "resume":
                self.state = after(self.state, event)

    def start(self) -> None:
        """A loop requests its first item."""
        self._move("start")

    def begin(self) -> None:
        """The loop has an item."""
        if self.state == "starting":
            self._move("begin")

    @property
    def stops(self) -> bool:
        """No further step should follow."""
        return self.state in ("stopping", "stopped", "finished") and not self._stops_later(self._reached + 1)

    def boundary(self, step: int) -> bool:
        """Applies waiting commands; holds the loop while it is paused. False: no step should follow."""
        self._reached = step
        if self._is_quiet(step):
            return True
        # Nothing in it waits for an event loop, so it runs to its end here.
        work = self._at_boundary(step, self._wait, awaits=False)
        try:
            work.send(None)
        except StopIteration as done:
            return bool(done.value)
        work.close()
        raise RuntimeError("a boundary between two steps was not passed")

    async def boundary_async(self, step: int) -> bool:
        """Like `boundary`, for `async for`: other tasks of the event loop continue during a pause."""
        self._reached = step
        return self._is_quiet(step) or await self._at_boundary(step, _sleep, awaits=True)

    async def _at_boundary(self, step: int, wait: Callable[[], Awaitable[None]], *, awaits: bool) -> bool:
        """`wait` returns after a while, or on a change; `awaits`: handlers may be coroutines."""
        ends = now_ns() + int(HOLD_S * 1e9)
        while self._must_wait(step, ends):
            await wait()
        if self._needs_checkpoint(step):
            await self._apply(self._own_checkpoint(step), step, awaits=awaits)
        await self._drain(step, awaits=awaits)
        if self.state == "paused":
            began = now_ns()
            try:
                while self.state == "paused":
                    await wait()
                    self._listener.waits()
                    await self._drain(step, awaits=awaits)
            finally:
                self._listener.band("pause", began, failed=self.state == "paused")
        return not self.stops or self._stops_later(step)

    async def _wait(self) -> None:
        self._news.wait(PAUSE_TURN_S)
        self._news.clear()

    def finish(self, event: ControlEvent, reason: str) -> None:
        """The run is over: waiting commands expire. Idempotent."""
        with self._lock:
            if self.state in ENDED:
                return
            self.state = self._ahead = after(self.state, event)
            left = [*self._waiting]
            self._waiting.clear()
        for command in left:
            self._listener.reported(command.message("expired", reason=reason))
        self._listener.changed()

    def _is_quiet(self, step: int) -> bool:
        return (
            not self._waiting
            and self.state == "running"
            and self._fence is None
            and not self._needs_checkpoint(step)
        )

    def _needs_checkpoint(self, step: int) -> bool:
        every = self.checkpoint_every
        return every is not None and step % every == 0 and step > self.checkpointed

    def _must_wait(self, step: int, ends: int) -> bool:
        fence = self._fence
        if fence is not None and step >= fence and now_ns() > ends:
            fence = self._fence = None
        return fence is not None and step >= fence

    def _stops_later(self, step: int) -> bool:
        """All hosts run a few more steps, up to their common stop."""
        at = self._waiting[0].at if self._waiting else None
        return self.state == "stopping" and at is not None and at > step

    def _is_due(self, step: int) -> bool:
        """Whether the first waiting command can be applied now."""
        if not self._waiting or self.state in ENDED:
            return False
        at = self._waiting[0].at
        return at is None or at <= step or self.state == "paused"

    def _own_checkpoint(self, step: int) -> Command:
        # Also set when the checkpoint fails: the next one is due a whole interval later.
        self.checkpointed = step
        return Command("checkpoint", run=self._run_id)

    async def _drain(self, step: int, *, awaits: bool) -> None:
        self._await_stop()
        while self._is_due(step):
            await self._apply(self._waiting.popleft(), step, awaits=awaits)

    def _await_stop(self) -> None:
        """A stop shows in the state a moment before its command waits; otherwise the loop would end and the
        command expire."""
        if self.state == "stopping":
            with self._lock:
                return

    async def _apply(self, command: Command, step: int, *, awaits: bool) -> None:
        if command.action not in _HANDLER_ACTIONS:
            self._apply_at_once(command, step)
            return
        began = now_ns()
        try:
            result = self._call(command, step)
            if inspect.isawaitable(result) and not awaits:
                _discard(result)
                raise TypeError("its function is a coroutine: use `async for … in run.steps(…)`")
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:
            self._failed(command, step, began, error_text(error))
        except BaseException:
            self._failed(command, step, began, "It was interrupted.")
            raise
        else:
            self._done(command, step, began, result)

    def _apply_at_once(self, command: Command, step: int) -> None:
        try:
            if command.action == "set":
                command.before = self._hyper.replace(command.name or "", command.value)
                for applier in self._appliers:
                    applier(self._hyper)
            elif command.action == "stop":
                pass  # the state changed with the request
            elif self.state == "stopping":
                self._listener.reported(command.message("expired", reason="The run was stopped first."))
                return
            elif command.action == "pause":
                if is_allowed(self.state, "ask_pause"):
                    self._move("ask_pause")
                self._move("pause")
            else:
                self._move("resume")
        except Exception as error:
            self._listener.reported(command.message("failed", step=step, reason=error_text(error)))
            return
        self._listener.reported(command.message("applied", step=step))
        self._listener.changed()

    def _call(self, command: Command, step: int) -> Any:
        by_name = command.action == "call"
        handler = self.own.get(command.name or "") if by_name else self._handlers.get(command.action)
        if handler is None and by_name:
            raise LookupError(f"this run has no action {command.name!r}")
        if handler is None:
            raise LookupError(f"this run has no function for it: set one with run.on_{command.action}(…)")
        return handler(step) if takes_step(handler) else handler()

    def _done(self, command: Command, step: int, began: int, result: Any) -> None:
        if command.action == "checkpoint":
            self.checkpointed = step
        result_text = short(result, ERROR_LENGTH, plain=True) if result is not None else None
        self._listener.band(command.action, began)
        self._listener.reported(
            command.message("applied", step=step, reason=result_text, duration_ms=(now_ns() - began) / 1e6)
        )

    def _failed(self, command: Command, step: int, began: int, why: str) -> None:
        self._listener.band(command.action, began, failed=True)
        self._listener.reported(
            command.message("failed", step=step, reason=why, duration_ms=(now_ns() - began) / 1e6)
        )

    def _move(self, event: ControlEvent) -> None:
        with self._lock:
            before = self.state
            self.state = after(before, event)
            if not self._waiting or event == "start":
                self._ahead = self.state
            if self.state != before:
                # With the lock held: no thread may report the next state before this one.
                self._listener.changed()


_REQUEST_EVENTS: dict[ControlAction, ControlEvent] = {
    "pause": "ask_pause",
    "resume": "resume",
    "stop": "ask_stop",
}


def _callable(handler: Handler) -> Handler:
    if not callable(handler):
        raise TypeError(f"an action of a run is a function, not {short(handler)}")
    return handler


def takes_step(handler: Handler) -> bool:
    """Whether a function can be called with the number of the step."""
    try:
        inspect.signature(handler).bind(0)
    except (TypeError, ValueError):
        return False
    return True


def _discard(result: Any) -> None:
    close = getattr(result, "close", None)
    if callable(close):
        close()


async def _sleep() -> None:
    # Polled: the event loop may be another one each time, and a thread cannot wake it.
    await asyncio.sleep(ASYNC_TURN_S)
