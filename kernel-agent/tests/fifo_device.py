"""A device that runs programs one after another, and loops that feed it, in simulated time.

Nothing here sleeps or measures, so each split is the same on every machine. The step clock, the device clock
and the recorder are the real ones; only the time, the device and the thread that waits are simulated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from tpulab.measure.device_clock import ClaimedPost, DeviceClock
from tpulab.measure.recorder import Recorder
from tpulab.measure.runs import Run
from tpulab.measure.step_clock import StepClock
from tpulab.measure.thread_state import ThreadState

MS = 1_000_000
#: The host time of a call of a jitted function, and the delay of the waiting thread's wake-up.
CALL_NS = 15_000
WAKE_NS = 10_000
SPANS = ("input", "host", "compile", "device", "gap")
#: Modules that read the time or the state of their thread.
_TIMED = ("step_clock", "device_clock", "recorder")


class Patch(Protocol):
    def setattr(self, target: str, value: Any) -> None: ...


class Output:
    """An array that is ready when its program has run."""

    size, dtype = 1, np.dtype("float32")

    def __init__(self, ready_ns: int, simulation: Simulation) -> None:
        self.ready_ns = ready_ns
        self._simulation = simulation

    def is_ready(self) -> bool:
        return self._simulation.now >= self.ready_ns

    def block_until_ready(self) -> None: ...

    def is_deleted(self) -> bool:
        return False


class _Clock(DeviceClock):
    """The simulation is its waiting thread."""

    def _start(self) -> None: ...


class Simulation:
    def __init__(self, patch: Patch, *, watch_cost_us: float) -> None:
        self.now = 1_000 * MS
        self.device = _Clock()
        self.device.watch_cost_ns = int(watch_cost_us * 1_000)
        self.recorder = Recorder(self.device)
        #: when the device ran, and until when it is busy
        self.busy: list[tuple[int, int]] = []
        self.free_ns = 0
        self.state = ThreadState()
        self._claimed: ClaimedPost | None = None
        for module in _TIMED:
            patch.setattr(f"tpulab.measure.{module}.now_ns", lambda: self.now)
        patch.setattr("tpulab.measure.step_clock.thread_state", lambda: self.state)
        patch.setattr("tpulab.measure.step_clock.loaded_jax", lambda: None)

    def run(self, *loops: Loop) -> None:
        """Runs the loops, each on a separate thread, in the order of their wake-up times."""
        threads = [(loop.turns(), ThreadState()) for loop in loops]
        due = dict.fromkeys(range(len(threads)), self.now)
        while due:
            at = min(due, key=lambda one: due[one])
            self._watch_until(due[at])
            self.now = max(self.now, due[at])
            turns, self.state = threads[at]
            try:
                due[at] = next(turns)
            except StopIteration:
                del due[at]
        self._watch_until(self.now + 10**12)

    def start(self, length_ns: int) -> Output:
        """Queues a program now."""
        begin = max(self.now, self.free_ns)
        self.free_ns = begin + length_ns
        self.busy.append((begin, self.free_ns))
        return Output(self.free_ns, self)

    def _watch_until(self, moment: int) -> None:
        """The waiting thread's work before that."""
        while True:
            self._claimed = self._claimed or self.device.take()
            if self._claimed is None:
                return
            ready = max(self._claimed.output[0].ready_ns, self._claimed.began) + WAKE_NS
            if ready > moment:
                return
            self.now = max(self.now, ready)
            claimed, self._claimed = self._claimed, None
            self.device.note(claimed)


class Loop:
    """A loop whose iterations are given as a list of actions (`known-splits.json`)."""

    def __init__(self, simulation: Simulation, name: str, case: dict[str, Any]) -> None:
        self.sim = simulation
        self.case = case
        self.run = Run(name, None, None)
        simulation.recorder.events.append((self.run, self.run.message()))
        self.clock = StepClock(self.run, simulation.device, simulation.recorder.closed, lambda: None)
        #: the thread's actions: begin, end, span if the device idles; and the steps
        self.did: list[tuple[int, int, str]] = []
        self.steps: list[tuple[int, int]] = []
        self._outputs: list[Output] = []

    def turns(self) -> Iterator[int]:
        for number in range(self.case["steps"]):
            begin = self.sim.now
            self.clock.begin()
            yield from self._do(self.case["turn"], number)
            if self.clock.is_open:
                self.clock.end()
                self.steps.append((begin, self.sim.now))
        self.clock.discard()

    def _do(self, actions: list[list[Any]], number: int) -> Iterator[int]:
        for what, *given in actions:
            begin = self.sim.now
            if what == "input":
                yield begin + int(given[0] * MS)
                self.did.append((begin, self.sim.now, "input"))
                self.clock.body()
            elif what in ("host", "gap"):
                yield begin + int(given[0] * MS)
                self.did.append((begin, self.sim.now, what))
            elif what == "run":
                yield from self._call(int(given[0] * MS))
                self.did.append((begin, self.sim.now, "host"))
            elif what == "sync":
                waits = not self._outputs[-1].is_ready()
                if waits:
                    self.sim.device.wait_begins()
                yield self._outputs[-1].ready_ns
                if waits:
                    self.sim.device.wait_ends()
                self.did.append((begin, self.sim.now, "gap"))
            elif what == "compile":
                yield begin + int(given[0] * MS)
                self.did.append((begin, self.sim.now, "compile"))
                state = self.sim.state
                state.compiles.append((begin, self.sim.now))
                state.programs_compiled += 1
                state.device_known_since = None
                self._outputs.append(self.sim.start(int(given[1] * MS)))
            elif what == "every":
                if number % given[0] == given[0] - 1:
                    yield from self._do(given[1], number)
            elif what == "fail":
                self.clock.discard()
            elif what == "loop":
                case = {"steps": given[0], "turn": given[1], "ahead": self.case.get("ahead", 2)}
                inner = Loop(self.sim, f"{self.run.name} inner", case)
                inner._outputs = self._outputs
                yield from inner.turns()
                self.did += inner.did

    def _call(self, length_ns: int) -> Iterator[int]:
        """Returns when the program is queued; the queue has room for so many."""
        yield self.sim.now + CALL_NS
        ahead = self.case.get("ahead", 2)
        if len(self._outputs) >= ahead:
            yield max(self.sim.now, self._outputs[-ahead].ready_ns)
        output = self.sim.start(length_ns)
        self._outputs.append(output)
        self.clock._on_dispatch_of_thread(None, (), {}, output)

    def truth(self, of_steps: set[int] | None = None) -> dict[str, float]:
        """Shares of all steps, or of these: each instant is measured separately."""
        mine = [step for at, step in enumerate(self.steps) if of_steps is None or at in of_steps]
        cuts = sorted({moment for span in (*self.did, *self.sim.busy, *mine) for moment in span[:2]})
        total = dict.fromkeys(SPANS, 0)
        did, busy, steps = (iter(sorted(spans)) for spans in (self.did, self.sim.busy, mine))
        acts, runs, step = next(did, None), next(busy, None), next(steps, None)
        for low, high in itertools.pairwise(cuts):
            while acts is not None and acts[1] <= low:
                acts = next(did, None)
            while runs is not None and runs[1] <= low:
                runs = next(busy, None)
            while step is not None and step[1] <= low:
                step = next(steps, None)
            if step is None or step[0] > low:
                continue
            doing = acts[2] if acts is not None and acts[0] <= low else "host"
            running = runs is not None and runs[0] <= low
            total["compile" if doing == "compile" else "device" if running else doing] += high - low
        whole = sum(total.values())
        return {span: part / whole for span, part in total.items()}
