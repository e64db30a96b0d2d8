"""One process of a kernel per host at a time: a disconnected host may still run the previous one.

That process uses the chips, so the next would find them in use. The next one's supervisor ends the other,
and waits until it has ended. They connect through an abstract socket, which leaves no file.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable

#: Longer than a process without its lead lives. A holder after that is ignored.
WAIT_S = 40.0
#: A longer wait is reported.
REPORT_S = 1.0
_POLL_S = 0.05


def acquire_host_lock(name: str, write_line: Callable[[str], None]) -> socket.socket | None:
    """Returns the lock once it is free. None: this system has no such locks, or the lock stays claimed."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    began = time.monotonic()
    has_reported = False
    while (lock := _bound(name)) is None:
        waited_s = time.monotonic() - began
        if waited_s > WAIT_S:
            return None
        if waited_s > REPORT_S and not has_reported:
            has_reported = True
            write_line(
                "the process from before the restart still runs there; waiting for it to free the chips"
            )
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as holder:
            holder.settimeout(REPORT_S)
            holder.connect(_address(name))
            holder.recv(1)  # it ends with the other process
        time.sleep(_POLL_S)
    return lock


def release_host_lock_on_request(lock: socket.socket, end: Callable[[], None]) -> None:
    """Calls `end` when the next process requests the lock. The lock is free when `end` returns."""

    def listen() -> None:
        while True:
            requester, _ = lock.accept()
            with requester:
                if _user_of(requester) == os.getuid():
                    end()
                    lock.close()
                    return

    lock.listen()
    threading.Thread(target=listen, name="tpulab-host-lock", daemon=True).start()


def _bound(name: str) -> socket.socket | None:
    lock = socket.socket(socket.AF_UNIX)
    try:
        lock.bind(_address(name))
    except OSError:
        lock.close()
        return None
    return lock


def _address(name: str) -> str:
    return f"\0tpulab-slice-{os.getuid()}-{name}"


def _user_of(requester: socket.socket) -> int:
    form = "3i"  # pid, uid, gid
    credentials = requester.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(form))
    return int(struct.unpack(form, credentials)[1])
