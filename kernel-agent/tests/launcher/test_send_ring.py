"""The ring stores sent messages until they are confirmed, and counts dropped ones."""

from __future__ import annotations

import json

import pytest

from tpulab.launcher.send_ring import OVERHEAD_BYTES, SendRing, message_id

US = b"us"


def message(name: str, topic: bytes = b"stream", size: int = 0) -> list[bytes]:
    header = json.dumps({"msg_id": name, "msg_type": "stream"}).encode()
    return [topic, b"<IDS|MSG>", b"signature", header, b"{}", b"{}", b"x" * size]


def names(ring: SendRing, last: dict[str, str] | None = None) -> list[str]:
    return [message_id(frames).decode() for _, frames in ring.unconfirmed(last or {}, US).messages]


def filled(count: int, limit: int = 10**9) -> SendRing:
    ring = SendRing(limit)
    for number in range(count):
        ring.add("iopub", message(f"m{number}"))
    return ring


def test_stores_all_messages_until_they_are_confirmed() -> None:
    ring = filled(5)
    assert names(ring) == ["m0", "m1", "m2", "m3", "m4"]
    ring.confirm({"iopub": "m2"})
    assert names(ring) == ["m3", "m4"]
    ring.confirm({"iopub": "m4"})
    assert (names(ring), ring.stored_bytes, ring.unconfirmed_bytes()) == ([], 0, 0)


def test_returns_the_messages_after_the_last_known_one() -> None:
    ring = filled(5)
    assert names(ring, {"iopub": "m3"}) == ["m4"]
    assert names(ring, {"iopub": "never heard of"}) == ["m0", "m1", "m2", "m3", "m4"]


def test_an_old_or_unknown_confirmation_changes_nothing() -> None:
    ring = filled(5)
    ring.confirm({"iopub": "m3"})
    for name in ("m1", "never heard of"):
        ring.confirm({"iopub": name})
    assert names(ring) == ["m4"]


@pytest.mark.parametrize("last", [{}, {"iopub": "m1"}, {"iopub": "m9"}])
def test_counts_the_dropped_messages_after_the_last_known_one(last: dict[str, str]) -> None:
    size = sum(map(len, message("m0"))) + OVERHEAD_BYTES
    ring = filled(10, limit=3 * size)
    known = int(last["iopub"][1:]) + 1 if last else 0
    rest = ring.unconfirmed(last, US)
    assert rest.exact
    assert rest.lost.get("iopub", 0) + len(rest.messages) == 10 - known
    assert len(rest.messages) == min(3, 10 - known)


def test_replies_to_others_are_not_returned() -> None:
    ring = SendRing()
    ring.add("shell", message("ours", topic=US))
    ring.add("shell", message("theirs", topic=b"debugger"))
    assert names(ring) == ["ours"]
