"""The agent of a process: owns the clocks, the watches and the one thread that reports.

With a keeper's socket it sends messages; without one it prints short lines of text. Started by the launcher
in a kernel, or by the first use of `tpulab.steps` and its like anywhere else. Costs nothing until jax is
imported or a loop is measured. A forked child has no agent: threads and sockets do not survive a fork.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.metadata
import logging
import os
import platform
import sys
import threading
from typing import Any

from tpulab import __version__
from tpulab.cells import CellRegister
from tpulab.clocks import unix_now_ms
from tpulab.compile_watch import CompileWatch
from tpulab.device_clock import DeviceClock
from tpulab.devices import DeviceReport
from tpulab.import_hook import AfterImport
from tpulab.jax_internals import loaded_jax
from tpulab.keeper_socket import KeeperSocket
from tpulab.messages import HelloMessage, Message
from tpulab.recorder import Recorder
from tpulab.runs import Run
from tpulab.text_report import TextReport

SOCKET_VARIABLE = "TPULAB_AGENT_SOCKET"
#: Set to the pid of the process that reports, so that programs started from a cell print text instead.
OWNER_VARIABLE = "TPULAB_AGENT_PID"
#: `0` silences the lines of text.
TEXT_VARIABLE = "TPULAB_TEXT"
BATCH_PERIOD_S = 0.1
#: How often an idle agent looks at the runtime's memory (with jax) or at its connection (without).
IDLE_PERIOD_S = 1.0
BARE_PERIOD_S = 5.0
EXIT_TIMEOUT_S = 0.5

_log = logging.getLogger("tpulab")


class Agent:
    """One per process. `close` is idempotent and bounded."""

    def __init__(self, socket_path: str | None, *, silent: bool = False) -> None:
        self.keeper = KeeperSocket(socket_path) if socket_path else None
        self.device = DeviceClock()
        self.recorder = Recorder(self.device)
        self.cells = CellRegister()
        self.compiles = CompileWatch(self.cells, self.recorder.events, self.wake)
        self.devices = DeviceReport()
        #: runs that have not ended, by id; and the last ones that have, for `status`
        self.runs: dict[str, Run] = {}
        self.last_run: Run | None = None
        self.text = TextReport(self) if self.keeper is None and not silent else None
        self._hook = AfterImport("jax", self._on_jax)
        self._work = threading.Lock()
        self._work.acquire()
        self._collecting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._unsent: list[Message] = []

    def start(self) -> None:
        self._hook.install()
        atexit.register(self.close)
        if self.keeper is not None:
            self._ensure_thread()

    def wake(self) -> None:
        """Something is to be reported. Safe in a finalizer: no lock is ever held while it is signalled."""
        if self._work.locked():
            with contextlib.suppress(RuntimeError):
                self._work.release()

    def add_run(self, run: Run) -> None:
        self._ensure_thread()
        self.runs[run.id] = run
        self.last_run = run
        self.recorder.events.append(run)
        self.wake()

    def end_run(self, run: Run) -> None:
        """To be called after `run.state` was set to an end."""
        self.runs.pop(run.id, None)
        self.recorder.events.append(run)
        self.wake()

    def settle(self, timeout_s: float = 0.2) -> None:
        """Works out the steps that are complete, so that totals are current. Gives up after `timeout_s`."""
        if self.keeper is None and self._collecting.acquire(timeout=timeout_s):
            try:
                self.recorder.collect()
            finally:
                self._collecting.release()

    def close(self) -> None:
        """Sends what is left (bounded) and ends the threads."""
        atexit.unregister(self.close)
        from tpulab.tracked_run import step_runs

        step_runs.end_all("finished", agent=self)
        self._hook.remove()
        self.cells.detach()
        self.compiles.detach()
        self._stopping.set()
        self.wake()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(EXIT_TIMEOUT_S)
        self.device.stop(EXIT_TIMEOUT_S)

    def abandon(self) -> None:
        """In a forked child: lets go of what belongs to the parent, without touching its connection."""
        atexit.unregister(self.close)
        self._hook.remove()
        self.cells.detach()
        self.compiles.detach()
        self.device.abandon()
        atexit.unregister(self.device.stop)
        if self.keeper is not None:
            self.keeper.close()

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
            "time": unix_now_ms(),
        }

    def _on_jax(self) -> None:
        try:
            self.compiles.attach()
            # Runs before jax's own exit work, which takes the backend away under the watcher.
            atexit.register(self.device.stop)
        except Exception as error:
            _log.warning("tpulab: compilations are not reported: %r", error)
        self.wake()

    def _ensure_thread(self) -> None:
        if self._thread is None and not self._stopping.is_set():
            self._thread = threading.Thread(target=self._report, name="tpulab-agent", daemon=True)
            self._thread.start()

    def _report(self) -> None:
        while not self._stopping.is_set():
            self._work.acquire(timeout=self._idle_s())
            if self._stopping.wait(BATCH_PERIOD_S):
                break
            try:
                self._round()
            except Exception as error:
                _log.warning("tpulab: a report failed: %r", error)
        with contextlib.suppress(Exception):
            self._round(force=True)
        if self.keeper is not None:
            self.keeper.close()

    def _idle_s(self) -> float:
        if self._unsent and self.keeper is not None:
            return max(self.keeper.wait_s(), 0.01)
        if self.recorder.pending or self.compiles.active:
            return BATCH_PERIOD_S
        if self.keeper is None:
            return -1
        return IDLE_PERIOD_S if loaded_jax() is not None else BARE_PERIOD_S

    def _round(self, *, force: bool = False) -> None:
        self.compiles.announce_long_traces()
        if self.keeper is None:
            with self._collecting:
                self.recorder.collect(force=force)
            return
        self.keeper.check()
        if self.keeper.connect():
            # A keeper that was restarted knows nothing of this process.
            self.keeper.send([self.hello(), *self._standing()])
        if self.keeper.connected and (force or not self._unsent):
            changed = self.devices.poll()
            if changed is not None:
                self._unsent.append(changed)
            with self._collecting:
                self._unsent += self.recorder.collect(force=force)
        if self._unsent and self.keeper.send(self._unsent):
            self._unsent = []

    def _standing(self) -> list[Message]:
        standing: list[Message] = [self.devices.last] if self.devices.last is not None else []
        return standing + [run.message() for run in list(self.runs.values())]


def _ipykernel_version() -> str | None:
    if "ipykernel" not in sys.modules:
        return None
    try:
        return importlib.metadata.version("ipykernel")
    except importlib.metadata.PackageNotFoundError:
        return None


_agent: Agent | None = None
_forked = False


def _socket_path() -> str | None:
    path = os.environ.get(SOCKET_VARIABLE)
    owner = os.environ.get(OWNER_VARIABLE)
    if not path or (owner and owner != str(os.getpid())):
        return None
    os.environ[OWNER_VARIABLE] = str(os.getpid())
    return path


def start_in_kernel(shell: Any) -> Agent:
    """Starts the agent of a kernel, with the shell whose cells it knows."""
    agent = current_agent()
    _attach(agent, shell)
    return agent


def current_agent() -> Agent:
    """The agent of this process, started if there is none."""
    global _agent
    if _agent is None:
        _agent = Agent(
            None if _forked else _socket_path(), silent=_forked or os.environ.get(TEXT_VARIABLE) == "0"
        )
        _agent.start()
        get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
        if callable(get_ipython) and not _forked:
            _attach(_agent, get_ipython())
    return _agent


def _attach(agent: Agent, shell: Any) -> None:
    if shell is None or agent.cells.attached:
        return
    from tpulab.tracked_run import on_cell_end

    agent.cells.attach(shell, after_cell=on_cell_end)


def existing_agent() -> Agent | None:
    return _agent


def _after_fork_in_child() -> None:
    global _agent, _forked
    if _agent is not None:
        _agent.abandon()
    _agent, _forked = None, True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
