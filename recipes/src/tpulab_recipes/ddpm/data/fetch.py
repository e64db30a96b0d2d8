"""Polite fetching of images: few requests at a time to any one host, bounded in size and time, and never the
same twice."""

from __future__ import annotations

import collections
import contextlib
import fcntl
import http.client
import os
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import IO

USER_AGENT = "tpulab-recipes/0.1 (image data set download; respects X-Robots-Tag)"
#: Directives by which a server says that its images are not for this (img2dataset honours the same).
DISALLOWED = {"noai", "noimageai", "noindex", "noimageindex"}


@dataclass(frozen=True)
class FetchLimits:
    """What one image may cost."""

    timeout_s: float = 10.0
    max_bytes: int = 32 << 20
    retries: int = 2
    per_host: int = 4
    #: Longest wait that a server's Retry-After may ask for.
    max_wait_s: float = 5.0


@dataclass(frozen=True)
class Fetched:
    """One row of the table: its image, or why there is none."""

    row: int
    data: bytes | None
    problem: str | None


class Fetcher:
    """Fetches many addresses over a pool of threads."""

    def __init__(self, threads: int, limits: FetchLimits | None = None, gates: str | None = None) -> None:
        """`gates` is a folder on this machine: fetchers with the same one, in any process, keep the limit
        for each host together."""
        self._threads, self._limits = max(1, threads), limits or FetchLimits()
        self._stopped = threading.Event()
        self._hosts = _HostGates(self._limits.per_host, gates, self._stopped)

    def fetch(
        self, rows: Iterable[tuple[int, str]], on_done: Callable[[], None] | None = None
    ) -> Iterator[Fetched]:
        """Results as they come. Keeps no more than a few for each thread in memory."""
        ahead = 2 * self._threads
        with ThreadPoolExecutor(self._threads, thread_name_prefix="fetch") as pool:
            running: set[Future[Fetched]] = set()
            try:
                for row, url in rows:
                    if len(running) >= ahead:
                        done, running = wait(running, return_when=FIRST_COMPLETED)
                        yield from self._results(done, on_done)
                    running.add(pool.submit(self._one, row, url))
                while running:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from self._results(done, on_done)
            finally:
                # Left early (an error, Ctrl-C): requests that wait are given up.
                self._stopped.set()
                for future in running:
                    future.cancel()

    def _results(
        self, done: Iterable[Future[Fetched]], on_done: Callable[[], None] | None
    ) -> Iterator[Fetched]:
        for future in done:
            if on_done:
                on_done()
            yield future.result()

    def _one(self, row: int, url: str) -> Fetched:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return Fetched(row, None, "not_http")
        problem = "unknown"
        for attempt in range(self._limits.retries + 1):
            if self._stopped.is_set():
                return Fetched(row, None, "stopped")
            try:
                with self._hosts.gate(parts.hostname):
                    return Fetched(row, self._read(url), None)
            except _Refused as error:
                return Fetched(row, None, error.args[0])
            except urllib.error.HTTPError as error:
                problem, pause = f"http_{error.code}", _retry_after(error)
                error.close()
                if error.code not in (429, 500, 502, 503, 504):
                    return Fetched(row, None, problem)
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem, pause = type(error).__name__, 0.0
            if attempt < self._limits.retries:
                self._stopped.wait(min(max(pause, 0.2 * 2**attempt), self._limits.max_wait_s))
        return Fetched(row, None, problem)

    def _read(self, url: str) -> bytes:
        request = urllib.request.Request(url, headers={"User-Agent": USER_AGENT})
        deadline = time.monotonic() + 3 * self._limits.timeout_s
        with urllib.request.urlopen(request, timeout=self._limits.timeout_s) as answer:
            said = ",".join(answer.headers.get_all("X-Robots-Tag") or [])
            if {word.strip().lower() for word in said.replace(":", ",").split(",")} & DISALLOWED:
                raise _Refused("disallowed")
            pieces, size = [], 0
            while piece := answer.read(1 << 16):
                size += len(piece)
                if size > self._limits.max_bytes:
                    raise _Refused("too_large")
                if time.monotonic() > deadline:
                    raise TimeoutError
                pieces.append(piece)
            promised = answer.headers.get("Content-Length")
            if promised is not None and promised.isdigit() and size < int(promised):
                raise ConnectionError("the answer was cut off")
            return b"".join(pieces)


class _Refused(Exception):
    """No use in trying again."""


#: Files of one gate are shared by the hosts whose names fall together: a table may name very many hosts.
_SHARED_GATES = 1024


@dataclass
class _HostGates:
    per_host: int
    folder: str | None
    stopped: threading.Event
    _gates: dict[str, threading.Semaphore] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def gate(self, host: str) -> Iterator[None]:
        with self._lock:
            mine = self._gates.setdefault(host, threading.Semaphore(self.per_host))
        with mine:
            if self.folder is None:
                yield
                return
            file = self._locked(self.folder, zlib.crc32(host.encode()) % _SHARED_GATES)
            try:
                yield
            finally:
                file.close()

    def _locked(self, folder: str, number: int) -> IO[bytes]:
        """One of the files of a gate, locked; the system gives the lock back when a process dies."""
        while True:
            for place in range(self.per_host):
                file = open(os.path.join(folder, f"{number}-{place}"), "ab")  # noqa: SIM115
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return file
                except OSError:
                    file.close()
            if self.stopped.wait(0.02):
                raise ConnectionError("stopped")


def _retry_after(error: urllib.error.HTTPError) -> float:
    try:
        return max(0.0, float(error.headers.get("Retry-After") or 0))
    except ValueError:
        return 0.0


def count_problems(problems: Iterable[str]) -> dict[str, int]:
    return dict(collections.Counter(problems).most_common())
