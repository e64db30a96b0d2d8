"""Sends all frames of a message without letting go of the interpreter between them.

pyzmq releases Python's lock around the sending of each frame. The thread that publishes therefore competes
with the cell's own thread six or seven times a message, and each time one of them is woken or waits
(`sys.getswitchinterval`). libzmq itself takes such a frame in a microsecond, so the lock is kept here.
Nothing may block meanwhile: only small messages go this way, and what libzmq does not take at once is left
to pyzmq.

Only for a thread that no signal handler runs in. In Python's main thread an interrupt between two frames
would leave a message cut in two (`docs/decisions/0011-a-keeper-that-takes-over.md`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import zmq

#: Above, copying with the lock held would cost other threads more than the switches do.
WHOLE_BYTES = 64 * 1024


class WholeSend:
    """`zmq_send` of the libzmq that pyzmq has loaded."""

    def __init__(self, library: ctypes.PyDLL) -> None:
        self._send = library.zmq_send
        self._send.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
        self._send.restype = ctypes.c_int

    def frames(self, address: int, frames: Sequence[bytes]) -> int:
        """Sends frames to the socket at `address` (`zmq.Socket.underlying`); answers how many were taken."""
        last = len(frames) - 1
        for number, frame in enumerate(frames):
            flags = zmq.DONTWAIT if number == last else zmq.DONTWAIT | zmq.SNDMORE
            if self._send(address, frame, len(frame), flags) < 0:
                return number
        return len(frames)


def find_whole_send() -> WholeSend | None:
    """None where pyzmq's libzmq cannot be reached, as when it is built in without its symbols."""
    try:
        from zmq.backend.cython import _zmq

        # A handle finds the symbols of what it was linked with too: the very libzmq that pyzmq uses.
        return WholeSend(ctypes.PyDLL(_zmq.__file__))
    except (ImportError, OSError, AttributeError, TypeError):
        return None


def send_whole(socket: zmq.Socket[Any], whole: WholeSend, frames: Sequence[bytes]) -> None:
    """Sends a message on `socket`. Blocks like pyzmq does where there is no room for it."""
    taken = whole.frames(socket.underlying, frames)
    for number in range(taken, len(frames)):
        # A closed socket, one without room: pyzmq waits, or raises what its callers know.
        zmq.Socket.send(socket, frames[number], 0 if number == len(frames) - 1 else zmq.SNDMORE)
