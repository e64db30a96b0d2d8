"""Messages that the kernel has sent and the keeper has not yet confirmed as recorded.

A ZMQ publisher forgets a message once it is sent, and a ROUTER drops messages to a missing
peer. So when the keeper dies, the kernel's messages until the next keeper connects would be lost. The ring
stores the frames as sent, numbered by channel, until the keeper confirms them; a keeper that takes
over requests the rest. It is bounded: past `limit_bytes` the oldest are dropped, and counted.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

DEFAULT_ALARM_BYTES = 256 * 1024 * 1024
#: Bytes, as a plain number; 0: never.
ALARM_VARIABLE = "TPULAB_IOPUB_ALARM_BYTES"

_ADVICE = "Print less or less often, or interrupt the cell."
_CHOICE = " TPULAB_IOPUB_QUEUE=block (or Bridge.iopub_queue of the bridge) makes cells wait instead."


class QueueAlarm:
    """Not thread-safe: its ring calls it with the lock held. `write_line` must neither wait nor send."""

    def __init__(self, limit_bytes: int, write_line: Callable[[str], None], *, blocks: bool = False) -> None:
        self._limit = limit_bytes
        self._send = write_line
        self._advice = _ADVICE if blocks else _ADVICE + _CHOICE
        self._most = 0
        #: The next report is due at this many bytes.
        self.next_bytes: float = limit_bytes or float("inf")

    def grown(self, waiting_bytes: int) -> None:
        """Called when `next_bytes` are reached."""
        self._most = waiting_bytes
        while self.next_bytes <= waiting_bytes:
            self.next_bytes *= 2
        self._send(
            f"tpulab: {_mib(waiting_bytes)} of this kernel's output are waiting in memory: it prints faster "
            f"than its output is read and recorded. {self._advice} The next warning comes at "
            f"{_mib(self.next_bytes)}.\n"
        )

    def shrunk(self, waiting_bytes: int) -> None:
        """Called after a confirmation. The warning ends below half of the threshold."""
        if self._most and waiting_bytes < self._limit / 2:
            self._send(
                f"tpulab: output no longer accumulates in memory: {_mib(waiting_bytes)} are waiting, "
                f"down from more than {_mib(self._most)}.\n"
            )
            self._most = 0
            self.next_bytes = self._limit


def _mib(count: float) -> str:
    mib = count / (1024 * 1024)
    return f"{mib:.1f} MiB" if mib < 10 else f"{mib:.0f} MiB"


DEFAULT_LIMIT_BYTES = 64 * 1024 * 1024
CHANNELS = ("shell", "control", "stdin", "iopub")

#: Python's overhead for a message beside the bytes of its frames.
OVERHEAD_BYTES = 512
#: Remembered ids of dropped messages, so that the number of lost ones can be reported exactly.
REMEMBERED_IDS = 65_536

DELIMITER = b"<IDS|MSG>"
_ID_PREFIX = b'{"msg_id": "'

Frames = Sequence[bytes]


@dataclass(frozen=True)
class Unconfirmed:
    """The messages that the keeper has not seen when it takes over."""

    #: (channel, frames), as they were sent, identities or topic first.
    messages: list[tuple[str, Frames]]
    #: Messages by channel that the ring had to drop.
    lost: dict[str, int]
    #: False: `lost` is an upper bound.
    exact: bool


class _Entry(NamedTuple):
    #: Of the channel, from 1.
    number: int
    #: Of all channels.
    stamp: int
    size: int
    msg_id: bytes
    frames: Frames


class _Lane:
    """One channel."""

    def __init__(self) -> None:
        self.entries: deque[_Entry] = deque()
        #: By id of a message: its number, and the bytes sent up to it.
        self.places: dict[bytes, tuple[int, int]] = {}
        #: Number and id of dropped messages that are still remembered.
        self.dropped: deque[tuple[int, bytes]] = deque()
        #: Ids of dropped messages were forgotten too.
        self.forgotten = False
        self.sent = 0
        self.sent_bytes = 0
        self.confirmed = 0
        self.confirmed_bytes = 0
        #: Messages sent before the present keeper connected, which therefore do not wait for it.
        self.earlier_bytes = 0

    def confirm(self, place: tuple[int, int]) -> int:
        """Releases all messages up to a place, and returns the number of freed bytes."""
        self.confirmed, self.confirmed_bytes = place
        while self.dropped and self.dropped[0][0] <= self.confirmed:
            self.places.pop(self.dropped.popleft()[1], None)
        self.forgotten = False
        freed = 0
        while self.entries and self.entries[0].number <= self.confirmed:
            entry = self.entries.popleft()
            self.places.pop(entry.msg_id, None)
            freed += entry.size
        return freed

    def drop(self) -> int:
        """Drops the oldest message, and returns the number of freed bytes."""
        entry = self.entries.popleft()
        self.dropped.append((entry.number, entry.msg_id))
        if len(self.dropped) > REMEMBERED_IDS:
            self.places.pop(self.dropped.popleft()[1], None)
            self.forgotten = True
        return entry.size


class SendRing:
    """Thread-safe: sockets add from their threads, the thread of the resend socket reads and trims."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._lanes = {channel: _Lane() for channel in CHANNELS}
        self._stamp = 0
        self._bytes = 0
        #: None while no keeper reads: libzmq then queues nothing.
        self._watched: QueueAlarm | None = None
        self._waiting = 0
        #: Notified when much waits for a reading keeper: the ring's bound does not limit libzmq's queue.
        self.alarm: QueueAlarm | None = None

    @property
    def stored_bytes(self) -> int:
        return self._bytes

    def unconfirmed_bytes(self) -> int:
        """Bytes that were sent and not confirmed, whether the ring still stores them or not."""
        return sum(lane.sent_bytes - lane.confirmed_bytes for lane in self._lanes.values())

    def waiting_bytes(self) -> int:
        """Bytes sent to the current keeper and not confirmed: they are in libzmq or in the keeper."""
        with self._lock:
            return self._waiting if self._watched is not None else 0

    def reader_attached(self) -> None:
        """A keeper reads from now on."""
        with self._lock:
            for lane in self._lanes.values():
                lane.earlier_bytes = lane.sent_bytes
            self._waiting = 0
            self._watched = self.alarm
            self._check()

    def readers_detached(self) -> None:
        """No keeper reads: libzmq has dropped its queue."""
        with self._lock:
            self._waiting = 0
            self._check()
            self._watched = None

    def _check(self) -> None:
        if self._watched is not None:
            self._watched.shrunk(self._waiting)

    def add(self, channel: str, frames: Frames) -> int:
        """Called with the frames of one message, before they are sent. They must not change afterwards.

        Returns their accounted size in bytes.
        """
        msg_id = message_id(frames)
        size = OVERHEAD_BYTES
        for frame in frames:
            size += len(frame)
        lane = self._lanes[channel]
        with self._lock:
            lane.sent += 1
            lane.sent_bytes += size
            self._stamp += 1
            lane.places[msg_id] = (lane.sent, lane.sent_bytes)
            lane.entries.append(_Entry(lane.sent, self._stamp, size, msg_id, frames))
            self._bytes += size
            self._waiting += size
            if self._watched is not None and self._waiting >= self._watched.next_bytes:
                self._watched.grown(self._waiting)
            while self._bytes > self._limit:
                oldest = min((one for one in self._lanes.values() if one.entries), key=_oldest)
                self._bytes -= oldest.drop()
        return size

    def confirm(self, last: Mapping[str, str]) -> None:
        """The keeper has recorded all up to these messages, given by channel. Unknown ids change nothing."""
        with self._lock:
            for channel, msg_id in last.items():
                lane = self._lanes[channel]
                place = lane.places.get(msg_id.encode())
                if place is not None and place[0] > lane.confirmed:
                    self._bytes -= lane.confirm(place)
            self._waiting = sum(
                lane.sent_bytes - max(lane.confirmed_bytes, lane.earlier_bytes)
                for lane in self._lanes.values()
            )
            self._check()

    def unconfirmed(
        self, last: Mapping[str, str], routing_id: bytes, channels: Sequence[str] = CHANNELS
    ) -> Unconfirmed:
        """All messages after `last`, by channel in the order of sending.

        Of the reply channels, only messages to `routing_id`.
        """
        messages: list[tuple[str, Frames]] = []
        lost: dict[str, int] = {}
        exact = True
        with self._lock:
            for channel in channels:
                lane = self._lanes[channel]
                known = lane.places.get(last.get(channel, "").encode())
                after = max(lane.confirmed, known[0] if known else 0)
                first = lane.entries[0].number if lane.entries else lane.sent + 1
                if first > after + 1:
                    lost[channel] = first - after - 1
                    exact = exact and not (lane.forgotten and known is None)
                messages.extend(
                    (channel, entry.frames)
                    for entry in lane.entries
                    if entry.number > after and (channel == "iopub" or entry.frames[0] == routing_id)
                )
        return Unconfirmed(messages, lost, exact)


def _oldest(lane: _Lane) -> int:
    return lane.entries[0].stamp


def message_id(frames: Frames) -> bytes:
    """`msg_id` of a signed message; empty when there is none."""
    header = frames[frames.index(DELIMITER) + 2]
    # In the form that `json.dumps` gives a header; the parser is for packers with another form.
    if header.startswith(_ID_PREFIX):
        return header[len(_ID_PREFIX) : header.index(b'"', len(_ID_PREFIX))]
    try:
        return str(json.loads(header)["msg_id"]).encode()
    except (ValueError, KeyError, TypeError):
        return b""
