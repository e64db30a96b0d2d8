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


def take_place(name: str, write_line: Callable[[str], None]) -> socket.socket | None:
    """Returns the place once it is free. None: this system has no places, or the place stays occupied."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    began = time.monotonic()
    has_reported = False
    while (place := _bound(name)) is None:
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
    return place


def give_place(place: socket.socket, end: Callable[[], None]) -> None:
    """Calls `end` when the next process requests the place. The place is free when `end` returns."""

    def listen() -> None:
        while True:
            asking, _ = place.accept()
            with asking:
                if _user_of(asking) == os.getuid():
                    end()
                    place.close()
                    return

    place.listen()
    threading.Thread(target=listen, name="tpulab-place", daemon=True).start()


def _bound(name: str) -> socket.socket | None:
    place = socket.socket(socket.AF_UNIX)
    try:
        place.bind(_address(name))
    except OSError:
        place.close()
        return None
    return place


def _address(name: str) -> str:
    return f"\0tpulab-slice-{os.getuid()}-{name}"


def _user_of(asking: socket.socket) -> int:
    form = "3i"  # pid, uid, gid
    credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(form))
    return int(struct.unpack(form, credentials)[1])
