"""A ZMQ socket that puts what it sends into the ring first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import zmq

from tpulab.launcher.send_ring import SendRing


class RecordedSocket(zmq.Socket[Any]):
    """Made of an existing socket by `record`, because ipykernel makes its sockets itself."""

    # pyzmq lets only attributes be set that the class has; any other name is taken for an option of libzmq.
    ring: SendRing | None = None
    channel: str = ""

    def send_multipart(
        self, msg_parts: Sequence[Any], flags: int = 0, copy: bool = True, track: bool = False, **kwargs: Any
    ) -> Any:
        if self.ring is None:
            return super().send_multipart(msg_parts, flags, copy, track, **kwargs)
        frames = [lasting(part) for part in msg_parts]
        self.ring.add(self.channel, frames)
        return super().send_multipart(msg_parts, flags, copy, track, **kwargs)


def record(made: zmq.Socket[Any], channel: str, ring: SendRing) -> RecordedSocket:
    """Turns a socket that nobody has sent on yet into one that records."""
    made.__class__ = RecordedSocket
    assert isinstance(made, RecordedSocket)
    made.ring = ring
    made.channel = channel
    return made


def lasting(part: Any) -> bytes:
    """The bytes of a frame. A buffer of the user's is copied: it may change as soon as it is sent."""
    return part if type(part) is bytes else bytes(memoryview(part))
