"""The command queue, where a finalizer may interrupt (F24)."""

from __future__ import annotations

import threading

from tpulab.control.command import Command
from tpulab.control.command_queue import CommandQueue
from tpulab.control.controller import Controller
from tpulab.control.hyperparameters import Hyperparameters


def test_a_finalizer_that_ends_a_run_does_not_wait_for_the_queue_that_it_interrupts() -> None:
    commands = CommandQueue({})
    done = threading.Event()

    class Ends:
        """Garbage that reports on deletion, as the guard of a loop does."""

        def __del__(self) -> None:
            commands.reported(Command("stop", id="of the finalizer").message("expired"))
            commands.add("another", Controller("another", Hyperparameters({})))

    def busy() -> None:
        garbage: list[object] = [Ends()]
        with commands._lock:
            garbage.clear()
        done.set()

    threading.Thread(target=busy, daemon=True).start()
    assert done.wait(30)
    assert [message["id"] for message in commands.recent(5)] == ["of the finalizer"]
