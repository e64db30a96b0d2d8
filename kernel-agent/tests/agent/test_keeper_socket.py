"""The connection to the keeper: whole messages, bounded waits, and reconnection."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from keeper_double import KeeperDouble, wait_until
from tpulab.agent import keeper_socket
from tpulab.agent.agent import Agent
from tpulab.agent.keeper_socket import KeeperSocket


def hello() -> Any:
    return {
        "type": "hello",
        "v": 1,
        "pid": 1,
        "agentVersion": "0",
        "pythonVersion": "3",
        "ipykernelVersion": None,
        "time": 0.0,
    }


def test_messages_arrive_as_lines_in_order(keeper: KeeperDouble) -> None:
    line = KeeperSocket(str(keeper.path))
    assert line.connect()
    assert line.send([hello() | {"pid": number} for number in range(100)])
    keeper.wait(lambda: len(keeper.messages) == 100, "all messages")
    assert [message["pid"] for message in keeper.messages] == list(range(100))
    line.close()


def test_nothing_is_sent_before_there_is_a_connection(short_folder: Path) -> None:
    line = KeeperSocket(str(short_folder / "nobody"))
    assert not line.connect()
    assert not line.send([hello()])


def test_pauses_between_connection_attempts_grow_to_a_limit(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0]
    monkeypatch.setattr(keeper_socket, "now_ns", lambda: clock[0])
    line = KeeperSocket(str(short_folder / "nobody"))
    pauses = []
    for _ in range(9):
        assert not line.connect()
        pauses.append(round(line.wait_s(), 3))
        assert not line.connect(), "not tried before the pause is over"
        clock[0] += int(line.wait_s() * 1e9) + 1
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_a_keeper_that_has_ended_is_noticed_without_sending(keeper: KeeperDouble) -> None:
    line = KeeperSocket(str(keeper.path))
    line.connect()
    line.check()
    assert line.connected
    keeper.wait(lambda: keeper.connections, "the connection")
    keeper.close()

    def noticed() -> bool:
        line.check()
        return not line.connected

    wait_until(noticed, "the end of the connection to be noticed")


def test_a_program_that_ends_delivers_all_to_a_keeper_that_is_busy(
    keeper: KeeperDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_socket, "SEND_TIMEOUT_S", 0.05)
    agent = Agent(str(keeper.path))
    agent.start()
    keeper.wait(lambda: keeper.of_type("hello"), "the first connection")
    keeper.reads.clear()
    for number in range(2000):
        agent.recorder.events.append({**hello(), "pid": number, "pythonVersion": "x" * 300})
    agent.close()
    assert keeper.connections > 1, "the first connection was full"
    keeper.reads.set()
    keeper.read_all()
    found = [message["pid"] for message in keeper.of_type("hello") if len(message["pythonVersion"]) == 300]
    # Two connections are read side by side.
    assert sorted(found) == list(range(2000))


def test_a_keeper_that_does_not_read_costs_a_bounded_wait_and_the_connection(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_socket, "SEND_TIMEOUT_S", 0.05)
    path = short_folder / "deaf.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        line = KeeperSocket(str(path))
        assert line.connect()
        assert not line.send([hello() | {"agentVersion": "x" * 1000}] * 5000)
        assert not line.connected


def test_a_slow_keeper_receives_nothing_twice(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages sent before a time-out are not sent again on the next connection."""
    monkeypatch.setattr(keeper_socket, "SEND_TIMEOUT_S", 0.05)
    path = short_folder / "k.sock"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(2)
    keeper = KeeperSocket(str(path))
    messages: list[Any] = [{"type": "test", "number": number, "fill": "x" * 1000} for number in range(2000)]
    read = b""
    try:
        while messages:
            wait_until(keeper.connect, "the connection", 10)
            connection, _ = listener.accept()
            # The receiver does not read until the sender has given up.
            keeper.send(messages)
            keeper.close()
            with connection:
                while data := connection.recv(1 << 20):
                    read += data
                # A message that was cut off ends with its connection.
                read = read[: read.rfind(b"\n") + 1]
    finally:
        listener.close()
    numbers = [json.loads(line)["number"] for line in read.splitlines()]
    assert len(numbers) == len(set(numbers))
    assert numbers == sorted(numbers)
