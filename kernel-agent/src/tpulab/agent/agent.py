"""The agent of a process: owns the clocks, the watches and the one thread that reports.

With a keeper's socket it sends messages; without one it prints short lines of text. Started by the launcher
in a kernel, or by the first use of `tpulab.steps` and its like anywhere else. Costs nothing until jax is
imported or a loop is measured. A forked child has no agent: threads and sockets do not survive a fork.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.metadata
import itertools
import logging
import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from tpulab.agent.backend_advice import advise_on_backend, advise_on_platform, warn_of_spawn
from tpulab.agent.control_link import ControlLink
from tpulab.agent.keeper_socket import KeeperSocket
from tpulab.agent.kernel_requests import KernelRequests
from tpulab.agent.text_report import TextReport
from tpulab.compile.lazy_watch import LazyWatch
from tpulab.compile.torch_watch import TorchWatch
from tpulab.compile.watch import CompileWatch
from tpulab.control.branching import plan
from tpulab.control.command_queue import CommandQueue
from tpulab.measure.auto_steps import AutoSteps
from tpulab.measure.sync_watch import SyncWatch
from tpulab.measure.tracked_run import step_runs
from tpulab.measure.tracker import Tracker
from tpulab.memory.error import memory_error, memory_error_text
from tpulab.runtimes.capabilities import capabilities
from tpulab.runtimes.devices import DeviceReport
from tpulab.runtimes.import_hook import AfterImport
from tpulab.runtimes.jax_internals import loaded_jax, missing_parts, python_calls
from tpulab.runtimes.torch_runtime import TorchRuntime
from tpulab.runtimes.torch_xla_runtime import TorchXlaRuntime
from tpulab.telemetry.clocks import now_ns, unix_now_ms
from tpulab.telemetry.guarded import log_once, start_thread
from tpulab.telemetry.locations import locate_error
from tpulab.telemetry.messages import (
    ControlMessage,
    DevicesMessage,
    FenceMessage,
    HelloMessage,
    Message,
    Requested,
)
from tpulab.telemetry.text import write_line
from tpulab.telemetry.version import __version__

BATCH_PERIOD_S = 0.1
#: How often an idle agent polls the runtime's memory (with jax) or its connection (without).
IDLE_PERIOD_S = 1.0
BARE_PERIOD_S = 5.0
EXIT_TIMEOUT_S = 0.5
#: An evaluation or checkpoint that takes longer is reported while it runs.
LONG_BAND_NS = 2_000_000_000
#: Messages that loops may have computed ahead of the next report.
MAX_COLLECTED = 8192
#: Timeout of the last report; only a keeper that does not read delays it.
LAST_REPORT_TIMEOUT_S = 5.0

_log = logging.getLogger("tpulab")


class Agent:
    """One per process. `close` is idempotent and bounded."""

    def __init__(self, socket_path: str | None, *, silent: bool = False) -> None:
        self.keeper = KeeperSocket(socket_path) if socket_path else None
        speaks = self.keeper is None and not silent
        self.tracker = tracker = Tracker(
            wake=self.wake,
            warn=self.warn,
            on_run=self._ensure_thread,
            is_shown=self.keeper is not None,
            write_line=write_line if speaks else None,
        )
        if speaks:
            tracker.text = TextReport(self.settle)
        tracker.settle = self.settle
        self.cells, self.device, self.recorder = tracker.cells, tracker.device, tracker.recorder
        self.adviser = tracker.adviser
        self.compiles = CompileWatch(self.cells, self.recorder.events, self.wake)
        self.devices = DeviceReport()
        self._torch_xla_found: bool | None = None
        #: a loaded package provides hooks that the next greeting reports
        self._greets_again = False
        self.requested = requested = KernelRequests(self._report_requested, self.send_control)
        self.commands = CommandQueue(
            {"branch": plan, "free": requested.free, "memory": requested.memory, "profile": requested.profile}
        )
        self._commands = ControlLink(socket_path, self._receive) if socket_path else None
        self.syncs = SyncWatch(self.adviser, self.cells, self.device)
        self.compiles.adviser = self.adviser
        self.cells.on_error = self._on_cell_error
        self.cells.on_begin = self._on_cell
        self._errors = itertools.count(1)
        self._preset_cpu_count = os.environ.get("JAX_NUM_CPU_DEVICES")
        self.auto = AutoSteps(tracker)
        self.lazy: LazyWatch | None = None
        self.torch: TorchWatch | None = None
        self._hooks = [
            AfterImport("jax", self._on_jax),
            AfterImport("torch", self._on_torch),
            AfterImport("torch_xla", self._on_torch_xla),
        ]
        self._work = threading.Lock()
        self._work.acquire()
        self._collecting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._unsent: list[Message] = []
        #: messages that the thread of a loop has computed, before the next report
        self._collected: list[Message] = []

    def start(self) -> None:
        for hook in self._hooks:
            hook.install()
        atexit.register(self.close)
        if self.keeper is not None:
            self._ensure_thread()
            self.wake()

    def wake(self) -> None:
        """Wakes the agent's thread to report something. Safe in a finalizer: no lock is held meanwhile."""
        if self._work.locked():
            with contextlib.suppress(RuntimeError):
                self._work.release()

    def listen_for_commands(self) -> None:
        """A run that can be steered exists. Idempotent."""
        if self._commands is not None:
            self._commands.start()

    def send_control(self, message: ControlMessage) -> None:
        """Reports the result of a command immediately, not with the next batch. Safe on any thread."""
        self.commands.reported(message)
        if self._commands is not None:
            self._commands.send(message)

    def _receive(self, body: dict[str, Any]) -> tuple[ControlMessage | FenceMessage, bool]:
        return (self.commands.fence(body), False) if body.get("fence") else self.commands.receive(body)

    def _report_requested(self, message: Requested) -> None:
        self.recorder.events.append(message)
        self.wake()

    def settle(self, patience_s: float = 0.0) -> None:
        """Completes the finished steps, so that totals are current.

        Waits at most `patience_s` for steps whose device time is not known yet.
        """
        # Without a connection too, or a run that ends early would have no last figures in its log.
        if self.keeper is not None and len(self._collected) >= MAX_COLLECTED:
            return
        deadline = now_ns() + int(patience_s * 1e9)
        # Not acquired: the agent's thread holds it, or this is a finalizer that interrupted this very thread.
        while self._collecting.acquire(timeout=max(0.05, (deadline - now_ns()) / 1e9)):
            try:
                self._poll()
                collected = self.recorder.collect()
                if self.keeper is not None and collected:
                    self._collected += collected
                    self.wake()
            finally:
                self._collecting.release()
            if not self.recorder.pending or now_ns() >= deadline:
                return
            time.sleep(0.001)

    def close(self) -> None:
        """Sends the remaining messages (bounded) and ends the threads."""
        atexit.unregister(self.close)
        # A script that ended with an exception: no cell reports it.
        error = None if self.cells.attached else getattr(sys, "last_value", None)
        step_runs.end_all("finished" if error is None else "failed", tracker=self.tracker)
        for hook in self._hooks:
            hook.remove()
        watches = [self.cells.detach, self.compiles.detach, self.syncs.detach]
        watches += [watch.detach for watch in (self.lazy, self.torch) if watch is not None]
        for detach in watches:
            try:
                detach()
            except Exception as error:  # a package of another version: still send the remaining messages
                self.warn("a hook could not be removed: %r", error)
        self._stopping.set()
        self.wake()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(LAST_REPORT_TIMEOUT_S + EXIT_TIMEOUT_S)
        if self._commands is not None:
            self._commands.close()
        self.device.stop(EXIT_TIMEOUT_S)

    def abandon(self) -> None:
        """In a forked child: releases the parent's resources without touching its connection."""
        atexit.unregister(self.close)
        for hook in self._hooks:
            hook.remove()
        self.cells.detach()
        self.compiles.detach()
        self.device.abandon()
        atexit.unregister(self.device.stop)
        if self.keeper is not None:
            self.keeper.close()
        if self._commands is not None:
            self._commands.abandon()

    def warn(self, text: str, *details: object) -> None:
        _log.warning("tpulab: " + text, *details)

    def hello(self) -> HelloMessage:
        return {
            "type": "hello",
            "v": 1,
            "pid": os.getpid(),
            "agentVersion": __version__,
            "pythonVersion": platform.python_version(),
            "ipykernelVersion": _ipykernel_version(),
            "capabilities": capabilities(self.cells.kernel, self._torch_xla_found),
            "time": unix_now_ms(),
        }

    def _on_jax(self) -> None:
        self._greets_again = True
        missing = missing_parts()
        if missing:
            self._advise_on_missing("jax", missing)
        # Runs before jax's own exit handlers, which remove the backend while the watcher still uses it.
        atexit.register(self.device.stop)
        parts: dict[str, Callable[[], object]] = {
            "XLA_FLAGS do not set the number of CPU devices": self._heed_cpu_count,
            "compilations are not reported": self.compiles.attach,
            "programs that the CPU runs in the call count as host": python_calls.install,
            "reads of a device value are not reported": self.syncs.attach,
            "loops without annotation are not noticed": self.auto.follow_jax,
            "commands are not listened to": self.listen_for_commands,
        }
        if "compilations" in missing:
            del parts["compilations are not reported"]
        if self.cells.running() is None:
            del parts["loops without annotation are not noticed"]
        for without, attach in parts.items():
            # Each separately: a change in jax costs no more than the part that needs it.
            try:
                attach()
            except Exception as error:
                log_once(without, error)
        self.wake()

    def _heed_cpu_count(self) -> None:
        """`XLA_FLAGS` of the user take precedence over the kernelspec's number of CPU devices."""
        given = os.environ.get("JAX_NUM_CPU_DEVICES")
        if given is None or given != self._preset_cpu_count:
            return
        if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
            config: Any = sys.modules["jax"].config
            if str(config.jax_num_cpu_devices) == given:
                config.update("jax_num_cpu_devices", -1)

    def _advise_on_missing(self, package: str, parts: list[str]) -> None:
        """Reports the effect of a missing hook, so that a panel is not empty without a reason."""
        version = getattr(sys.modules.get(package), "__version__", "of this environment")
        self.adviser.report(
            "missing-hook",
            f"With {package} {version}, TPULab does not see: {', '.join(parts)}.",
            "Use an environment created by `tpulab env create`, or a newer TPULab.",
            about=package,
        )

    def _on_cell(self) -> None:
        self.auto.cell_begins()
        if loaded_jax() is not None:
            self.auto.follow_jax()

    def _on_cell_error(self, error: BaseException) -> None:
        """A cell failed: if it ran out of memory, reports the owners of the memory."""
        advise_on_platform(error, self.adviser)
        location = locate_error(self.cells, error)
        run = next((run.id for run in reversed(list(self.tracker.runs.values()))), None)
        message = memory_error(error, next(self._errors), location, run, self.devices.read)
        if message is not None:
            self.recorder.events.append(message)
            self.wake()
            if self.tracker.text is not None:
                write_line(memory_error_text(message))

    def _check_devices(self, message: DevicesMessage) -> None:
        kind = message["devices"][0]["kind"] if message["devices"] else None
        for run in list(self.tracker.runs.values()):
            if run.throughput is not None:
                run.throughput.device_kind, run.throughput.device_count = kind, len(message["devices"])
        advise_on_backend(message, self.adviser)

    def _on_torch(self) -> None:
        def follow() -> bool:
            runtime = TorchRuntime()
            watch = TorchWatch(runtime, self.tracker, self.auto, self.compiles.next_id)
            if watch.attach():
                self.torch = watch
                self.devices.runtimes.append(runtime)
            return self.torch is not None

        self._follow("torch", follow)

    def _on_torch_xla(self) -> None:
        def follow() -> bool:
            runtime = TorchXlaRuntime()
            watch = LazyWatch(runtime, self.tracker, self.auto, self.syncs, self.compiles.next_id)
            self._torch_xla_found = watch.attach()
            self._greets_again = True
            if self._torch_xla_found:
                self.lazy = watch
                self.devices.runtimes.insert(0, runtime)
                warn_of_spawn(self.adviser, self.cells)
            return self._torch_xla_found

        self._follow("torch_xla", follow)

    def _follow(self, package: str, follow: Callable[[], bool]) -> None:
        try:
            if not follow():
                self._advise_on_missing(package, ["steps", "compilations", "device time"])
            self.listen_for_commands()
        except Exception as error:
            log_once(f"{package} is not measured", error)
        self.wake()

    def _ensure_thread(self) -> None:
        if self._thread is None and not self._stopping.is_set():
            self._thread = start_thread("tpulab-agent", self._report)

    def _report(self) -> None:
        while not self._stopping.is_set():
            self._work.acquire(timeout=self._idle_s())
            if self._stopping.wait(BATCH_PERIOD_S):
                break
            try:
                self._round()
            except Exception as error:
                log_once("a report failed", error)
        with contextlib.suppress(Exception):
            self._last_report()
        if self.keeper is not None:
            self.keeper.close()

    def _last_report(self) -> None:
        """Uses another connection for messages that a busy keeper delays; a lost connection ends it."""
        until = now_ns() + int(LAST_REPORT_TIMEOUT_S * 1e9)
        if self.keeper is not None and not self.keeper.connected:
            self._connect(self.keeper, at_once=True)
        self._round(force=True)
        while self._unsent and self.keeper is not None and now_ns() < until:
            if not self._connect(self.keeper, at_once=True):
                return
            self.keeper.send(self._unsent)

    def _connect(self, keeper: KeeperSocket, *, at_once: bool = False) -> bool:
        """A keeper that was restarted knows nothing of this process."""
        made = keeper.connect(at_once=at_once)
        if made:
            self._greets_again = False
            keeper.send([self.hello(), *self._state_messages()])
        return made

    def _idle_s(self) -> float:
        if self._unsent and self.keeper is not None:
            return max(self.keeper.wait_s(), 0.01)
        # A lazy runtime does not report that a read compiles: poll it during a run.
        if self.recorder.pending or self.compiles.active or (self.lazy is not None and self.tracker.runs):
            return BATCH_PERIOD_S
        if self.keeper is None:
            return -1
        is_used = loaded_jax() is not None or self.lazy or self.torch or self.tracker.runs
        return IDLE_PERIOD_S if is_used else BARE_PERIOD_S

    def _poll(self) -> None:
        """Collects the figures that PyTorch's runtimes have counted meanwhile."""
        for watch in (self.lazy, self.torch):
            if watch is not None:
                watch.poll()

    def _round(self, *, force: bool = False) -> None:
        self.compiles.announce_long_traces()
        with self._collecting:
            self._poll()
        step_runs.end_orphans()
        for run in [*self.tracker.runs.values()]:
            if not run.in_band and now_ns() - (run.in_band_ns or now_ns()) > LONG_BAND_NS:
                run.in_band = True
                self.tracker.report(run)
        if self.keeper is None:
            with self._collecting:
                self.recorder.collect(force=force)
            return
        self.keeper.check()
        self._connect(self.keeper)
        if self.keeper.connected and (force or not self._unsent):
            changed = self.devices.poll()
            if changed is not None:
                self._unsent.append(changed)
            if self.devices.last is not None:
                self._check_devices(self.devices.last)
            with self._collecting:
                self._unsent += self._collected
                self._collected = []
                self._unsent += self.recorder.collect(force=force)
        if self.keeper.connected and self._greets_again:
            self._greets_again = False
            self._unsent.insert(0, self.hello())
        if self._unsent:
            self.keeper.send(self._unsent)

    def _state_messages(self) -> list[Message]:
        standing: list[Message] = [self.devices.last] if self.devices.last is not None else []
        # A run that is not announced yet is part of the next batch, with its states in order.
        return standing + [run.message() for run in list(self.tracker.runs.values()) if run.announced]


def _ipykernel_version() -> str | None:
    if "ipykernel" not in sys.modules:
        return None
    try:
        return importlib.metadata.version("ipykernel")
    except importlib.metadata.PackageNotFoundError:
        return None
