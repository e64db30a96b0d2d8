"""All hosts of a slice: set up side by side, watched, and ended together.

Multi-controller JAX cannot continue without one of its processes. So the first lost host breaks the
group: it is named, the others are interrupted and ended, and each later cell reports it until the kernel is
restarted.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from tpulab.slice import loss
from tpulab.slice.client import SliceClient
from tpulab.slice.errors import RESTART, HostLostError, SliceError, SliceStartError
from tpulab.slice.host_link import (
    HostLink,
    forwarded_connection,
    forwarded_environment,
    local_command,
    ssh_command,
)
from tpulab.slice.rendezvous import connections, controller_order, coordinator_address
from tpulab.slice.reports import HostReports
from tpulab.slice.spec import SliceSpec

#: A host without messages for so long is disconnected. Supervisors send one each second.
SILENCE_S = 6.0
#: A process that is seen stopped for so long will not continue automatically.
STOPPED_S = 2.0
CONTROLLER_S = 60.0
_TICK_S = 0.5
#: The lead itself was not running, so the silence of a host means nothing.
_OWN_PAUSE_S = 2.0
#: A host without messages from the lead for so long ends its process, so that its chips are free again.
PATIENCE_S = 30.0
#: Hosts get so long to send their last messages when the group is ended.
_REAP_S = 2.0
_FORWARD_TRIES = 3


class GroupListener(Protocol):
    """Receives the messages of the hosts. All in the loop."""

    def message(self, host: int, channel: str, message: dict[str, Any]) -> None: ...

    def lost(self, host: int, reason: str) -> None: ...

    def notice(self, host: int, text: str) -> None: ...


class Group:
    def __init__(self, spec: SliceSpec, listener: GroupListener, log: logging.Logger, name: str) -> None:
        """`name`: unique to this kernel, and the same after a restart."""
        self.spec = spec
        self._name = name
        self._listener = listener
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._folder = Path(tempfile.mkdtemp(prefix="tpulab-slice-"))
        self._links: dict[int, HostLink] = {}
        self._controller: HostLink | None = None
        self._client: SliceClient | None = None
        self._joined: set[int] = set()
        #: Requests that only wait for a sign on iopub, and the hosts that have sent one.
        self._greetings: set[str] = set()
        self._received: set[int] = set()
        self._preempted: set[int] = set()
        self._stopped_since: dict[int, float] = {}
        self._changed = asyncio.Event()
        self._closed = False
        socket_path = os.environ.get("TPULAB_AGENT_SOCKET")
        #: None: no bridge listens to agents.
        self._reports = (
            HostReports(socket_path, [spec.label(host) for host in range(spec.count)], self._command)
            if socket_path
            else None
        )
        #: Why no cell can run any more.
        self.broken: SliceError | None = None
        self._ready = asyncio.ensure_future(self._start())
        # Each cell checks it; a failure before the first cell must not count as an error of the event loop.
        self._ready.add_done_callback(lambda done: done.cancelled() or done.exception())

    @property
    def is_ready(self) -> bool:
        return self._ready.done() and self.broken is None and not self._closed

    async def ready(self) -> None:
        """Waits until all hosts have joined. Raises `SliceStartError` or the error that ended the group."""
        if self.broken is None:
            await asyncio.shield(self._ready)
        if self.broken is not None:
            raise self.broken

    def send_to(self, host: int, msg_type: str, content: dict[str, Any], **more: Any) -> str:
        if self.broken is not None:
            raise self.broken
        assert self._client is not None
        return self._client.send_to(host, msg_type, content, **more)

    def signal(self, hosts: Iterable[int], number: int) -> None:
        for host in hosts:
            self._links[host].signal(number)

    def _command(self, host: int, body: dict[str, Any]) -> None:
        link = self._links.get(host)
        if link is not None:
            link.command(body)

    def pids(self) -> dict[int, int]:
        """The process of each host, on its machine."""
        return {host: link.pid for host, link in self._links.items()}

    def end(self, error: SliceError) -> None:
        """Ends the processes of all hosts immediately. Later cells get this error."""
        self.broken = self.broken or error
        if self._reports is not None:
            self._reports.process_ended()
        for link in self._links.values():
            link.kill()

    def close(self) -> None:
        """Ends everything. May be called from any state, and blocks for at most a few seconds."""
        if self._closed:
            return
        self._closed = True
        self.broken = self.broken or SliceError("The kernel has shut down.")
        self._call_soon(self._ready.cancel)
        links = [*self._links.values(), *([self._controller] if self._controller else [])]
        if self._client is not None:
            self._client.close(linger=0)
        if self._reports is not None:
            self._reports.close()
        for link in links:
            link.kill()
        ends = time.monotonic() + _REAP_S
        for link in links:
            link.reap(max(0.1, ends - time.monotonic()))
        shutil.rmtree(self._folder, ignore_errors=True)

    # --- set up ---

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(self.spec.start_timeout_s):
                await self._set_up()
        except TimeoutError:
            self.end(
                SliceStartError(
                    f"{self._missing()} did not join within {self.spec.start_timeout_s:.0f} s. Check that "
                    "the hosts reach each other, then restart the kernel."
                )
            )
        except SliceError as error:
            self.end(error)
        except Exception as error:
            self._log.exception("tpulab: the slice did not start")
            self.end(
                SliceStartError(f"The slice could not be set up: {error!r}. Restart the kernel to try again.")
            )

    async def _set_up(self) -> None:
        spec = self.spec
        self._controller = self._link(None, local_command(), controller_order(self._folder))
        here = [index for index in range(spec.count) if not spec.destination(index)]
        for index in here:
            self._links[index] = self._link(index, local_command(), self._engine_order(index, {**os.environ}))
        for_engines, for_client = await self._connections()
        join: dict[str, Any] = {
            "count": spec.count,
            "timeout_s": spec.start_timeout_s,
            "cpu_devices": spec.cpu_devices,
        }
        join |= await asyncio.to_thread(coordinator_address, spec)
        for index in here:
            self._links[index].write_line(json.dumps({**join, "index": index, "connection": for_engines}))
        await asyncio.gather(
            *(self._reach(index, for_engines, join) for index in range(spec.count) if index not in here)
        )
        self._watching = asyncio.ensure_future(self._watch())
        self._client = await asyncio.to_thread(
            SliceClient, for_client, self._deliver, lambda host: self._call_soon(self._has_joined, host)
        )
        await self._until(lambda: len(self._joined) == spec.count)
        await self._receive_all()

    def _engine_order(self, index: int, env: dict[str, str]) -> dict[str, Any]:
        env = {**env, **self.spec.env}
        # The supervisor has a socket for the agent of each host.
        env.pop("TPULAB_AGENT_SOCKET", None)
        if index:
            # Lines of text would only repeat the lines of process 0.
            env["TPULAB_TEXT"] = "0"
        env |= self.spec.framework_env()
        patience_s = PATIENCE_S if self.spec.destination(index) else 0.0
        return {
            "argv": ["-m", "tpulab.slice.engine", self.spec.framework],
            "env": env,
            "cwd": os.getcwd(),
            "patience_s": patience_s,
            # Processes on this machine end with the lead.
            "lock": f"{self._name}-{index}" if patience_s else None,
            "reports": self._reports is not None,
        }

    def _link(self, index: int | None, command: list[str], order: dict[str, Any]) -> HostLink:
        sent = self._controller_reported if index is None else functools.partial(self._host_reported, index)
        return HostLink(command, order, sent, self._loop)

    async def _connections(self) -> list[dict[str, Any]]:
        """For engines and for the client."""
        ends = time.monotonic() + CONTROLLER_S
        while (found := connections(self._folder)) is None:
            self._raise_if_broken()
            if time.monotonic() > ends:
                raise SliceStartError(f"ipyparallel's controller did not start within {CONTROLLER_S:.0f} s.")
            await asyncio.sleep(0.05)
        return found

    async def _reach(self, index: int, connection: dict[str, Any], join: dict[str, Any]) -> None:
        """Starts the supervisor of another machine. Its random ports may be in use, so it is tried again."""
        for attempt in range(1, _FORWARD_TRIES + 1):
            there, forwarded = forwarded_connection(connection)
            first_word: asyncio.Future[dict[str, Any]] = self._loop.create_future()

            def sent(what: dict[str, Any], first: asyncio.Future[dict[str, Any]] = first_word) -> None:
                if not first.done():
                    first.set_result(what)
                    if "gone" in what:
                        return
                self._host_reported(index, what)

            link = HostLink(
                ssh_command(self.spec, index, forwarded),
                self._engine_order(index, forwarded_environment(os.environ)),
                sent,
                self._loop,
            )
            received = await first_word
            if "gone" not in received:
                self._links[index] = link
                link.write_line(json.dumps({**join, "index": index, "connection": there}))
                return
            if "forwarding failed" not in received["why"] or attempt == _FORWARD_TRIES:
                why = (
                    received["why"].splitlines()[-1]
                    if received["why"]
                    else f"ssh ended with {received['gone']}"
                )
                self._record_lost_host(index)
                raise SliceStartError(
                    f"{self._capitalized_label(index)} could not be reached: {why}. Make "
                    f"`ssh {self.spec.destination(index)} true` work on host 0, then restart the kernel."
                )

    async def _receive_all(self) -> None:
        """Waits until the outputs of each host arrive: a subscription takes a moment, and earlier output
        would be lost."""
        while silent := set(range(self.spec.count)) - self._received:
            self._raise_if_broken()
            for host in silent:
                self._greetings.add(self.send_to(host, "kernel_info_request", {}))
            await asyncio.sleep(0.1)

    async def _until(self, condition: Any) -> None:
        while not condition():
            self._raise_if_broken()
            self._changed.clear()
            await self._changed.wait()

    def _raise_if_broken(self) -> None:
        if self.broken is not None:
            raise self.broken

    def _missing(self) -> str:
        missing = [host for host in range(self.spec.count) if host not in self._joined]
        return ", ".join(self.spec.label(host) for host in missing).capitalize() or "The slice"

    def _capitalized_label(self, host: int) -> str:
        label = self.spec.label(host)
        return label[0].upper() + label[1:]

    # --- received messages ---

    def _call_soon(self, function: Any, *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)

    def _has_joined(self, host: int) -> None:
        self._joined.add(host)
        self._changed.set()

    def _deliver(self, host: int, channel: str, message: dict[str, Any]) -> None:
        self._call_soon(self._message, host, channel, message)

    def _message(self, host: int, channel: str, message: dict[str, Any]) -> None:
        if channel == "iopub" and message["parent_header"]["msg_id"] in self._greetings:
            self._received.add(host)
        self._listener.message(host, channel, message)

    def _controller_reported(self, sent: dict[str, Any]) -> None:
        if "exited" in sent and not self._closed:
            self._break(SliceError(f"ipyparallel's controller: {loss.of_exit(sent)}. {RESTART}"))

    def _host_reported(self, host: int, sent: dict[str, Any]) -> None:
        if "agent" in sent:
            if self._reports is not None:
                self._reports.received(host, sent["agent"])
            return
        if "waits" in sent:
            self._listener.notice(host, f"{self._capitalized_label(host)}: {sent['waits']}.\n")
            return
        if sent.get("preempted") and "exited" not in sent:
            self._preempted.add(host)
            self._listener.notice(
                host, f"{self._capitalized_label(host)}: the cloud announces that it preempts this machine.\n"
            )
        if "exited" in sent:
            self._lose_host(host, loss.of_exit(sent))
        elif "gone" in sent:
            self._record_lost_host(host)
            self._lose_host(host, loss.of_link(sent, host in self._preempted))
        elif "alive" in sent and sent.get("state") != "T":
            self._stopped_since.pop(host, None)
        elif "alive" in sent:
            self._stopped_since.setdefault(host, time.monotonic())

    def _lose_host(self, host: int, reason: str) -> None:
        if self._closed or self.broken is not None:
            return  # the messages of the others while the group ends are not relevant
        if not self.is_ready:
            self._break(
                SliceStartError(
                    f"{self._capitalized_label(host)} did not join: {reason}. Then restart the kernel."
                )
            )
            return
        self.broken = HostLostError(
            f"{self._capitalized_label(host)} is lost: {reason}. "
            f"The others cannot continue without it. {RESTART}"
        )
        self._listener.lost(host, reason)

    def _record_lost_host(self, host: int) -> None:
        """The host's machine is unreachable, and may be a different one when it returns."""
        if self.spec.lost_file and not self._closed and self.broken is None:
            with contextlib.suppress(OSError), Path(self.spec.lost_file).open("a") as file:
                file.write(f"{host}\n")

    def _break(self, error: SliceError) -> None:
        if self.broken is None:
            self.end(error)
            self._changed.set()
            self._listener.lost(-1, str(error))

    async def _watch(self) -> None:
        while self.broken is None and not self._closed:
            before = time.monotonic()
            await asyncio.sleep(_TICK_S)
            now = time.monotonic()
            if now - before > _OWN_PAUSE_S:
                for link in self._links.values():
                    link.received_at = now
                continue
            for host, link in self._links.items():
                link.greet()
                silent_s = now - link.received_at
                # A supervisor without a first message is still being started.
                if link.pid and silent_s > SILENCE_S:
                    self._record_lost_host(host)
                    self._lose_host(host, loss.of_silence(silent_s))
                elif now - self._stopped_since.get(host, now) > STOPPED_S:
                    self._lose_host(host, loss.of_stop())
