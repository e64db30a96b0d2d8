"""The signals that end a command: Ctrl-C, SIGTERM from a preempted machine, SIGHUP from a closed terminal.

Outside of a `stoppable` block a signal raises `Interrupted`. A training runs in such a block: it finishes its
step, saves it, and raises `Interrupted` itself; a second signal does not wait for that.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: A launcher forwards the signal that the terminal sends too: such a pair is one signal.
_PAIR_S = 1.0
_received = 0
_received_at = 0.0
_blocks = 0


class Interrupted(KeyboardInterrupt):
    """The text says what was saved, as the middle of a sentence."""


def handle_signals() -> None:
    """For a process that runs one command. A signal that its parent has it ignore, as `nohup` does, stays
    ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _on_signal)
    sys.unraisablehook = _on_unraisable


def end_on_signals() -> None:
    """From now on a signal ends the process without a traceback from the interpreter's shutdown."""
    for number in _SIGNALS:
        if signal.getsignal(number) is _on_signal:
            signal.signal(number, signal.SIG_DFL)


def requested() -> bool:
    """Whether a signal has arrived."""
    return _received > 0


def status() -> int:
    """The exit status, as a shell has it: 130 after Ctrl-C."""
    return 128 + (_received or signal.SIGINT)


@contextmanager
def stoppable() -> Iterator[None]:
    """A block that the first signal does not break; it calls `requested` after each step."""
    global _blocks
    _blocks += 1
    try:
        yield
    finally:
        _blocks -= 1


@contextmanager
def ended_by_parent() -> Iterator[None]:
    """Processes that are started in this block ignore Ctrl-C and a closed terminal, which reach every process
    of a terminal: they inherit the mask, and their parent ends them."""
    # Its own start would lift the mask.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _on_signal(number: int, _: Any) -> None:
    global _received, _received_at
    now, again = time.monotonic(), requested()
    if number == signal.SIGHUP:
        _leave_terminal()
    if again and now - _received_at < _PAIR_S:
        return
    _received, _received_at = _received or number, now
    if again or not _blocks:
        raise Interrupted(" before its step was saved" if _blocks else "")
    if sys.stderr.isatty():
        # `print` may be under way.
        os.write(2, b"\nSaving after this step; press Ctrl-C again to end at once.\n")


def _leave_terminal() -> None:
    """Writing to a closed terminal is an error, which would end the training before it is saved."""
    for number in (1, 2):
        if stat.S_ISCHR(os.fstat(number).st_mode):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, number)
            os.close(nowhere)


def _on_unraisable(found: Any) -> None:
    """Python drops an exception in a callback or a destructor: the interrupt would be printed and lost."""
    if isinstance(found.exc_value, KeyboardInterrupt):
        os.write(2, b"\nInterrupted; run the same command again to resume.\n")
        os._exit(status())
    sys.__unraisablehook__(found)
