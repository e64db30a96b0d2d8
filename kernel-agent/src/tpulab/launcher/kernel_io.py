"""Kernel output besides the messages of cells: UTF-8 messages, and reports of crashes in native code.

A text of Python may have half a character (`'\\ud83d'`, a file name that is not UTF-8). jupyter_client
fails on the first and sends invalid bytes for the second: the output is lost, and its own traceback is
shown in the cell.

A crash is reported by `faulthandler` on descriptor 2, which ipykernel has made a pipe to the kernel itself:
it is no longer read. Here the report goes into the kernel's log.

ipykernel flushes `sys.stdout` before it replies, and IPython replaces its `write` during a cell. A cell may
have put an object there that allows neither, or a file that it closed: the reply would never be sent.

An interrupt of a cell that awaits something is only noticed when the event loop wakes up for another
reason, and a child of `os.fork` has a copy of what was printed before it, and prints it again.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import signal
import socket
import sys
from typing import Any

from ipykernel import kernelbase
from IPython.core.autocall import ZMQExitAutocall
from jupyter_client.jsonutil import json_default
from jupyter_client.session import Session
from tornado.ioloop import IOLoop


class Exit(ZMQExitAutocall):  # type: ignore[misc]
    """`exit` and `quit`: IPython's own end the kernel a moment later, so that waiting cells still run."""

    def __call__(self, keep_kernel: bool = False) -> None:
        super().__call__(keep_kernel)
        if not keep_kernel:
            raise SystemExit("exit() was called")


def end_with_exit(shell: Any) -> None:
    shell.exiter = Exit(shell)
    shell.user_ns.update(exit=shell.exiter, quit=shell.exiter)


HALVES = re.compile("[\ud800-\udfff]")


def send_well_formed(session: Session) -> None:
    """Puts U+FFFD in place of each half of a character in messages of this session."""
    plain = session.pack

    def pack(content: Any) -> bytes:
        try:
            text = json.dumps(content, default=json_default, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError):
            packed: bytes = plain(content)
            return packed
        try:
            return text.encode()
        except UnicodeEncodeError:
            return HALVES.sub("\ufffd", text).encode()

    session.pack = pack


def report_crashes() -> None:
    """Crashes go into the log, even when a cell calls `faulthandler.enable()`. Call it while descriptor 2 is
    still the log."""
    log = os.fdopen(os.dup(2), "w")
    plain = faulthandler.enable

    def enable(file: Any = None, *rest: Any, **options: Any) -> None:
        plain(log if file in (None, sys.__stderr__) else file, *rest, **options)

    faulthandler.enable = enable
    enable()


def wake_on_signals(loop: IOLoop) -> None:
    """ipykernel cancels a cell's awaited task in the SIGINT handler, which does not wake its own thread."""
    woken, writer = socket.socketpair()
    woken.setblocking(False)
    writer.setblocking(False)

    def drain(*_: object) -> None:
        # A forked child may have read the byte first.
        with contextlib.suppress(BlockingIOError):
            woken.recv(4096)

    loop.add_handler(woken, drain, IOLoop.READ)
    signal.set_wakeup_fd(writer.detach(), warn_on_full_buffer=False)


class _Flushed:
    """`sys` with streams that only flush, and never raise."""

    def __getattr__(self, name: str) -> Any:
        return self if name in ("stdout", "stderr") else getattr(sys, name)

    def flush(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            # A cell may have replaced the stream.
            with contextlib.suppress(Exception):
                stream.flush()


def restore_streams(kernel: Any) -> None:
    """Before a cell runs: puts the kernel's own stream back where IPython could not use the cell's."""
    own = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    plain = kernel.pre_handler_hook

    def before() -> None:
        for name, stream in own.items():
            given = getattr(sys, name)
            try:
                given.write = given.write
            except Exception:
                setattr(sys, name, stream)
                own["stderr"].write(
                    f"tpulab: sys.{name} was {type(given).__name__}, which is no stream that IPython can "
                    "use; it is the kernel's own again.\n"
                )
        plain()

    kernel.pre_handler_hook = before


def flush_without_errors() -> None:
    """Before a reply, and before a fork."""
    kernelbase.sys = _Flushed()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_Flushed().flush)
