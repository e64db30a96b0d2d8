"""The framing of the subprotocol `v1.kernel.websocket.jupyter.org`, written independently of the bridge's.

A frame is `u64 count | u64 offset x count | channel | header | parent_header | metadata | content | buffers`,
little-endian; each part ends where the next begins, the last offset being the length of the frame.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

SUBPROTOCOL = "v1.kernel.websocket.jupyter.org"


@dataclass(frozen=True)
class Message:
    channel: str
    header: dict[str, Any]
    parent_header: dict[str, Any]
    metadata: dict[str, Any]
    content: dict[str, Any]
    buffers: tuple[bytes, ...] = ()

    @property
    def msg_type(self) -> str:
        return str(self.header["msg_type"])

    @property
    def msg_id(self) -> str:
        return str(self.header["msg_id"])

    @property
    def parent_id(self) -> str | None:
        return self.parent_header.get("msg_id")

    def as_dict(self) -> dict[str, Any]:
        """In the form of jupyter_client."""
        return {
            "header": self.header,
            "parent_header": self.parent_header,
            "msg_id": self.msg_id,
            "msg_type": self.msg_type,
            "metadata": self.metadata,
            "content": self.content,
            "buffers": list(self.buffers),
        }


def encode(channel: str, parts: Sequence[dict[str, Any]], buffers: Sequence[bytes] = ()) -> bytes:
    """`parts`: header, parent_header, metadata, content."""
    pieces = [channel.encode(), *(json.dumps(part, default=_json_date).encode() for part in parts), *buffers]
    start = 8 * (len(pieces) + 2)
    offsets = list(itertools.accumulate((len(piece) for piece in pieces), initial=start))
    return struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(pieces)


def decode(frame: bytes) -> Message:
    (count,) = struct.unpack_from("<Q", frame)
    offsets = struct.unpack_from(f"<{count}Q", frame, 8)
    assert offsets[-1] == len(frame), "the last offset is not the length of the frame"
    pieces = [frame[begin:end] for begin, end in itertools.pairwise(offsets)]
    header, parent, metadata, content = (json.loads(piece) for piece in pieces[1:5])
    return Message(pieces[0].decode(), header, parent, metadata, content, tuple(pieces[5:]))


def _json_date(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} in a message")
