"""A cell that prints faster than a reader reads gets a warning, again at each doubling, and an all-clear."""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
import zmq

from keeper_double import PATIENCE_S, wait_until
from kernel_process import LAUNCHER, KernelProcess
from tpulab.launcher.send_ring import QueueAlarm, SendRing

MIB = 1024 * 1024


def message(name: str, size: int) -> list[bytes]:
    header = json.dumps({"msg_id": name, "msg_type": "stream"}).encode()
    return [b"stream", b"<IDS|MSG>", b"signature", header, b"{}", b"{}", b"x" * size]


def watched(limit_bytes: int, *, blocks: bool = False) -> tuple[SendRing, list[str]]:
    reported: list[str] = []
    ring = SendRing()
    ring.alarm = QueueAlarm(limit_bytes, reported.append, blocks=blocks)
    return ring, reported


def test_it_is_reported_at_the_threshold_at_each_doubling_and_when_it_is_over() -> None:
    ring, reported = watched(4 * MIB)
    ring.reader_attached()
    for number in range(17):
        ring.add("iopub", message(f"m{number}", MIB))
    assert [text.split(" of this")[0] for text in reported] == [
        "tpulab: 4.0 MiB",
        "tpulab: 8.0 MiB",
        "tpulab: 16 MiB",
    ]
    assert "next warning comes at 32 MiB" in reported[-1]
    ring.confirm({"iopub": "m13"})
    assert len(reported) == 3  # 3 MiB are more than half of the threshold
    ring.confirm({"iopub": "m15"})
    assert len(reported) == 4
    assert "no longer accumulates" in reported[-1]
    ring.confirm({"iopub": "m16"})
    assert (len(reported), ring.waiting_bytes()) == (4, 0)
    for number in range(20, 24):
        ring.add("iopub", message(f"m{number}", MIB))
    assert len(reported) == 5
    assert reported[-1] == reported[0]


def test_a_single_message_above_several_doublings_is_reported_once() -> None:
    ring, reported = watched(MIB)
    ring.reader_attached()
    ring.add("iopub", message("m", 5 * MIB))
    assert len(reported) == 1
    assert "next warning comes at 8.0 MiB" in reported[0]


def test_a_cell_that_may_wait_is_not_advised_to_wait() -> None:
    for blocks in (False, True):
        ring, reported = watched(MIB, blocks=blocks)
        ring.reader_attached()
        ring.add("iopub", message("m", MIB))
        assert ("TPULAB_IOPUB_QUEUE=block" in reported[0]) is not blocks


def test_nothing_is_reported_when_the_threshold_is_zero() -> None:
    ring, reported = watched(0)
    ring.reader_attached()
    ring.add("iopub", message("m0", MIB))
    ring.confirm({"iopub": "m0"})
    assert reported == []


def test_output_sent_while_no_keeper_reads_does_not_wait_in_memory() -> None:
    ring, reported = watched(MIB)
    ring.add("iopub", message("m0", 2 * MIB))
    ring.reader_attached()
    ring.add("iopub", message("m1", MIB // 2))
    assert reported == []
    ring.add("iopub", message("m2", MIB // 2))
    assert len(reported) == 1
    ring.confirm({"iopub": "m0"})
    assert ring.waiting_bytes() > MIB


def test_output_waits_no_longer_when_its_keeper_ends() -> None:
    ring, reported = watched(MIB)
    ring.reader_attached()
    ring.add("iopub", message("m0", MIB))
    ring.readers_detached()
    ring.add("iopub", message("m1", 4 * MIB))
    assert len(reported) == 2
    assert "no longer" in reported[1]


class Confirming:
    """The connection of a keeper to the ring. Confirms when the test requests it."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(PATIENCE_S)
        self._socket.connect(str(path))
        assert self._answer()["hello"] == 1

    def confirm(self, msg_id: str) -> None:
        line = json.dumps({"id": 1, "op": "confirm", "last": {"iopub": msg_id}})
        self._socket.sendall(line.encode() + b"\n")
        assert self._answer() == {"id": 1}

    def _answer(self) -> dict[str, Any]:
        head = self._socket.recv(4, socket.MSG_WAITALL)
        body = self._socket.recv(struct.unpack("<I", head)[0], socket.MSG_WAITALL)
        return dict(json.loads(body[1:]))

    def close(self) -> None:
        self._socket.close()


def test_a_cell_whose_reader_has_stopped_continues_and_its_user_is_notified(short_folder: Path) -> None:
    resend = short_folder / "r.sock"
    lines = 3_000
    with KernelProcess(
        short_folder, env={"TPULAB_IOPUB_ALARM_BYTES": str(MIB)}, resend_socket=resend
    ) as kernel:
        keeper = Confirming(resend)
        info = kernel.client.get_connection_info()
        with zmq.Context() as context, context.socket(zmq.SUB) as reader:
            reader.setsockopt(zmq.RCVHWM, 1)
            reader.setsockopt(zmq.SUBSCRIBE, b"stream")
            reader.connect(f"ipc://{info['ip']}-{info['iopub_port']}")
            while not reader.poll(200):
                kernel.run("print('are you there?', flush=True)")
            kernel.client.iopub_channel.stop()
            request = kernel.client.execute(
                f"import sys; sys.stderr = None\nfor n in range({lines}): print(n, 'x' * 1000, flush=True)"
            )
            kernel._reply_to(request)  # the cell has not waited for the reader
            for mib in ("1.0", "2.0", "4.0"):
                wait_until(lambda mib=mib: f"tpulab: {mib} MiB of this" in kernel.log_text(), "the alarm")

            printed, reported, last = "", "", ""

            def read_on() -> None:
                nonlocal printed, reported, last
                assert reader.poll(int(PATIENCE_S * 1000)), "no output arrived at the reader"
                frames = reader.recv_multipart()
                at = frames.index(b"<IDS|MSG>")
                last = json.loads(frames[at + 2])["msg_id"]
                content = json.loads(frames[at + 5])
                if json.loads(frames[at + 3]).get("msg_id") != request:
                    return
                if content["name"] == "stderr":
                    reported += content["text"]
                else:
                    printed += content["text"]

            while printed.count("\n") < lines or reported.count("\n") < 3:
                read_on()
            assert [int(line.split()[0]) for line in printed.splitlines()] == list(range(lines))
            assert "tpulab: 1.0 MiB of this kernel's output are waiting in memory" in reported

            keeper.confirm(last)
            while "no longer accumulates" not in reported:
                read_on()
            assert "no longer accumulates" in kernel.log_text()
        keeper.close()


@pytest.mark.parametrize("given", ["much", "-5"])
def test_a_threshold_that_is_no_number_is_refused_in_the_log(given: str, short_folder: Path) -> None:
    with KernelProcess(
        short_folder, LAUNCHER, {"TPULAB_IOPUB_ALARM_BYTES": given}, resend_socket=short_folder / "r.sock"
    ) as kernel:
        assert kernel.run("print(1)") == "1\n"
        assert "TPULAB_IOPUB_ALARM_BYTES is not a number of bytes" in kernel.log_text()
