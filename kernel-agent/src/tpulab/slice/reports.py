"""Merges the reports of the agents of all hosts into reports of one kernel; sends commands to all of them.

The messages of process 0 are forwarded unchanged. Messages of the others add to them: their devices, their
step times (`hosts`), and programs that not all hosts compiled. A command is applied at the same step on all.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

from tpulab.agent.control_link import ControlLink
from tpulab.agent.keeper_socket import KeeperSocket
from tpulab.slice.host_steps import HostSteps, straggler
from tpulab.telemetry.clocks import unix_now_ms

#: Hosts compile the same program at about the same time; the slowest gets so long.
GRACE_S = 5.0
#: Ids of the hosts' own, distinct from process 0's and from each other.
IDS_OF_HOST = 1_000_000_000
#: Reported programs, so that late reports of other hosts are not taken for new ones.
MAX_ENTRIES = 2048

Key = tuple[str, int]


class _Program:
    def __init__(self, began: float) -> None:
        self.began = began
        self.by_host: dict[int, dict[str, Any]] = {}


class HostCompilations:
    def __init__(self, count: int, send: Callable[[dict[str, Any]], None]) -> None:
        self._count = count
        self._send = send
        self._programs: collections.OrderedDict[Key, _Program] = collections.OrderedDict()
        #: Programs of which it is not known yet whether all hosts have them.
        self._open: dict[Key, _Program] = {}

    def add(self, host: int, message: dict[str, Any], now: float) -> None:
        """Programs of process 0 are reported immediately; missing ones on others are known a while later."""
        if host == 0:
            self._send(message)
        # Small programs of eager operations differ with what a host prints and checks.
        if message["phase"] != "finished" or message["eager"]:
            return
        key = message["function"], message["variant"]
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = self._open[key] = _Program(now)
        program.by_host[host] = message
        if len(program.by_host) == self._count:
            self._open.pop(key, None)
        while len(self._programs) > MAX_ENTRIES:
            self._programs.popitem(last=False)

    def settle(self, now: float, *, everything: bool = False) -> None:
        for key, program in list(self._open.items()):
            if now - program.began < GRACE_S and not everything:
                continue
            del self._open[key]
            first = min(program.by_host)
            message = program.by_host[first]
            number = message["id"] + first * IDS_OF_HOST
            self._send({**message, "id": number, "hosts": sorted(program.by_host)})


#: Messages that wait for a keeper that restarts; the oldest is dropped first.
MAX_MESSAGES = 4096
#: Runs of a host: an evaluation in each epoch is one. And the runs whose steps are compared.
MAX_RUNS = 1024
COMPARED_RUNS = 32
HOSTS_PERIOD_S = 1.0
#: Answers of agents come within milliseconds, unless a host is stopped or its interpreter is never free.
#: An agent that answers later may be at another step than the others, which hold their loops a little longer
#: (`HOLD_S`).
FENCE_S = 8.0
#: Timeout for the remaining messages.
_CLOSE_S = 3.0
_POLL_S = 1.0
#: Actions that only one process can do, or whose result only one shows.
_FIRST_HOST_ACTIONS = ("branch", "memory", "profile")

Body = dict[str, Any]
#: A name of runs, and the number of earlier runs with this name.
Place = tuple[str, int]


class HostReports:
    """In the lead's loop, except the threads of its connections. `write_line` sends a body to an agent."""

    def __init__(self, socket_path: str, labels: list[str], write_line: Callable[[int, Body], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._labels = labels
        self._send_all = write_line
        self._line = KeeperLink(socket_path, self._state_messages)
        self._commands = ControlLink(socket_path, self._receive)
        self._hello: Body | None = None
        self._devices: dict[int, Body] = {}
        self._runs = [HostRuns() for _ in labels]
        #: For the runs of process 0 that had a step last.
        self._steps: collections.OrderedDict[str, HostSteps] = collections.OrderedDict()
        self._compilations = HostCompilations(len(labels), self._line.send)
        self._hosts: Body | None = None
        self._reported_at = 0.0
        #: By id of the command; the first undecided one is being sent, the others wait for it.
        self._orders: dict[str, _Order] = {}
        self._queue: collections.deque[_Order] = collections.deque()

    def close(self) -> None:
        self._compilations.settle(time.monotonic(), everything=True)
        self._commands.close()
        self._line.close()

    def process_ended(self) -> None:
        """All hosts are ended together, and report nothing more about their runs."""
        for message in self._runs[0].messages:
            if message["state"] == "running":
                self._line.send({**message, "time": unix_now_ms(), "state": "failed"})
        self._runs[0] = HostRuns()

    def received(self, host: int, message: Body) -> None:
        handle = getattr(self, "_received_" + str(message.get("type")).replace("-", "_"), None)
        if handle is not None:
            handle(host, message)
        elif host == 0:
            self._line.send(message)
        self._compilations.settle(time.monotonic())

    # --- by type ---

    def _received_hello(self, host: int, message: Body) -> None:
        if host == 0:
            self._hello = message
            self._line.send(message)

    def _received_control_hello(self, host: int, _: Body) -> None:
        if host == 0:
            self._commands.start()

    def _received_devices(self, host: int, message: Body) -> None:
        self._devices[host] = message
        if merged := self._all_devices():
            self._line.send(merged)

    def _all_devices(self) -> Body | None:
        """Each host knows the memory of its own devices."""
        first = self._devices.get(0)
        if first is None:
            return None
        own = [
            device
            for host, message in sorted(self._devices.items())
            for device in message["devices"]
            if device["processIndex"] == host
        ]
        known = {device["id"] for device in own}
        others = [device for device in first["devices"] if device["id"] not in known]
        return {**first, "devices": sorted(own + others, key=lambda one: (one["processIndex"], one["id"]))}

    def _received_run(self, host: int, message: Body) -> None:
        self._runs[host].add(message)
        if host == 0:
            self._line.send(message)

    def _received_steps(self, host: int, message: Body) -> None:
        if host == 0:
            self._line.send(message)
        first = self._run_of_first_host(host, message["run"])
        if first is None:
            return
        steps = self._steps.get(first)
        if steps is None:
            steps = self._steps[first] = HostSteps(len(self._labels))
        self._steps.move_to_end(first)
        while len(self._steps) > COMPARED_RUNS:
            self._steps.popitem(last=False)
        steps.add(host, message["steps"])
        now = time.monotonic()
        if steps.compared and now - self._reported_at >= HOSTS_PERIOD_S:
            self._reported_at = now
            splits = steps.splits()
            self._hosts = {
                "type": "hosts",
                "time": unix_now_ms(),
                "run": first,
                "step": steps.last,
                "compared": steps.compared,
                "hosts": [{**split, "name": self._labels[split["host"]]} for split in splits],
                "straggler": straggler(splits),
            }
            self._line.send(self._hosts)

    def _received_compile(self, host: int, message: Body) -> None:
        self._compilations.add(host, message, time.monotonic())

    def _received_control(self, host: int, message: Body) -> None:
        order = self._orders.get(message["id"])
        if order is not None:
            order.answered(host, message)
        if host == 0:
            self._commands.send(message)  # type: ignore[arg-type]

    def _received_fence(self, host: int, message: Body) -> None:
        order = self._orders.get(message["id"])
        if order is not None:
            order.fenced(host, message)

    # --- the same run on another host ---

    def _run_of_first_host(self, host: int, run: str) -> str | None:
        """Process 0's id of a run of another host: runs of one name correspond in order."""
        return self._matching(host, run, 0)

    def _matching(self, host: int, run: str, other: int) -> str | None:
        if host == other:
            return run
        place = self._runs[host].place_of(run)
        return None if place is None else self._runs[other].at(place)

    # --- commands ---

    def _receive(self, body: Body) -> tuple[Any, bool]:
        """On the thread of the connection for commands. Process 0 reports the result."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._command, body)
        return None, True

    def _command(self, body: Body) -> None:
        run, identifier = body.get("run"), body.get("id")
        if (
            body.get("action") in _FIRST_HOST_ACTIONS
            or not isinstance(identifier, str)
            or identifier in self._orders
        ):
            # A repeated command is answered word for word.
            self._send_all(0, body)
            return
        all_hosts = range(len(self._labels))
        if body.get("action") == "free":
            for host in all_hosts:
                self._send_all(host, body)
            return
        runs = {host: self._matching(0, run, host) if isinstance(run, str) else None for host in all_hosts}
        # Process 0 reports an unknown run as over.
        known = {host: found for host, found in runs.items() if found or run is None or host == 0}
        order = self._orders[identifier] = _Order(self, body, known)
        for old in list(itertools.islice(self._orders, max(0, len(self._orders) - MAX_MESSAGES))):
            del self._orders[old]
        self._queue.append(order)
        if len(self._queue) == 1:
            order.begin()

    def _decided(self) -> None:
        self._queue.popleft()
        if self._queue:
            self._queue[0].begin()

    def _state_messages(self) -> list[Body]:
        """For a keeper that has been restarted."""
        known = (self._hello, self._all_devices(), *self._runs[0].messages, self._hosts)
        return [one for one in known if one is not None]


class HostRuns:
    """The runs of one host, by their index among runs of the same name. Of ended runs, the newest."""

    def __init__(self) -> None:
        self._runs: dict[str, tuple[Body, Place]] = {}
        self._at: dict[Place, str] = {}
        #: by name: how many have started
        self._count: collections.OrderedDict[str, int] = collections.OrderedDict()

    @property
    def messages(self) -> list[Body]:
        return [message for message, _ in list(self._runs.values())]

    def add(self, message: Body) -> None:
        identity, name = message["run"], message["name"]
        if identity in self._runs:
            self._runs[identity] = message, self._runs[identity][1]
            return
        place = name, self._count.get(name, 0)
        self._count[name] = place[1] + 1
        self._count.move_to_end(name)
        self._runs[identity], self._at[place] = (message, place), identity
        while len(self._runs) > MAX_RUNS:
            oldest = next(
                (run for run, (answered, _) in self._runs.items() if answered["state"] != "running"), None
            )
            _, place = self._runs.pop(oldest if oldest is not None else next(iter(self._runs)))
            del self._at[place]
        while len(self._count) > MAX_MESSAGES:
            self._count.popitem(last=False)

    def place_of(self, run: str) -> Place | None:
        known = self._runs.get(run)
        return known[1] if known is not None else None

    def at(self, place: Place) -> str | None:
        return self._at.get(place)


class _Order:
    """A command to all hosts: each states the first step at which it can still apply it; the latest wins.

    Until then no host passes the step that it has stated, so no host is ahead of the decision.
    """

    def __init__(self, reports: HostReports, body: Body, runs: dict[int, str | None]) -> None:
        """`runs`: the id of the run on each host; None: the newest there."""
        self._reports = reports
        self._body = body
        self._runs = runs
        self._steps: dict[int, int] = {}
        self._is_decided = False

    def begin(self) -> None:
        self._reports._loop.call_later(FENCE_S, self._decide)
        for host, run in self._runs.items():
            self._reports._send_all(host, {"fence": True, "id": self._body["id"], "run": run})

    def fenced(self, host: int, message: Body) -> None:
        self._steps[host] = message["step"]
        if len(self._steps) == len(self._runs):
            self._decide()

    def _decide(self) -> None:
        if self._is_decided:
            return
        self._is_decided = True
        at = max((step for step in self._steps.values() if step >= 0), default=None)
        for host, run in self._runs.items():
            self._reports._send_all(host, {**self._body, "run": run or self._body.get("run"), "at": at})
        self._reports._decided()

    def answered(self, host: int, message: Body) -> None:
        """For another host, only errors are reported; process 0 represents hosts that agree."""
        if host and message["phase"] in ("refused", "failed"):
            reason = f"host {host}: {message['reason']}"
            self._reports._line.send(
                {
                    "type": "advice",
                    "time": unix_now_ms(),
                    "id": f"host-{host}-{message['id']}",
                    "kind": "host-differs",
                    "message": f"`{message['action']}` was not applied on all hosts: {reason}",
                    "remedy": "Restart the kernel if the hosts do not continue together.",
                    "location": None,
                    "run": self._body.get("run"),
                }
            )


class KeeperLink:
    """Sends messages to the keeper on a separate thread, and identifies us when it has been restarted."""

    def __init__(self, path: str, state_messages: Callable[[], list[Body]]) -> None:
        self._socket = KeeperSocket(path)
        self._state_messages = state_messages
        self._waiting: collections.deque[Body] = collections.deque(maxlen=MAX_MESSAGES)
        self._unsent: list[Body] = []
        self._news = threading.Event()
        self._stopping = False
        self._is_first = True
        self._thread = threading.Thread(target=self._run, name="tpulab-reports", daemon=True)
        self._thread.start()

    def send(self, message: Body) -> None:
        self._waiting.append(message)
        self._news.set()

    def close(self) -> None:
        self._stopping = True
        self._news.set()
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while not self._stopping:
            self._news.wait(_POLL_S)
            self._news.clear()
            self._flush()
        self._flush()
        self._socket.close()

    def _flush(self) -> None:
        self._socket.check()
        if self._socket.connect():
            state_messages = [] if self._is_first else self._state_messages()
            self._is_first = False
            self._socket.send(state_messages)
        while self._waiting:
            self._unsent.append(self._waiting.popleft())
        if self._unsent and self._socket.send(self._unsent):
            self._unsent = []
        del self._unsent[:-MAX_MESSAGES]
