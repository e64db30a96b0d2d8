"""Why a host was lost, in words, from the messages of its supervisor and the system."""

from __future__ import annotations

import signal
from typing import Any

#: Lines of a process that state why it ended rather than where.
_ERROR_WORDS = ("Error", "error:", "fatal", "FATAL", "Terminating", "Killed")


def of_exit(message: dict[str, Any]) -> str:
    code = message["exited"]
    if message.get("preempted"):
        return "the cloud preempted its machine"
    if message.get("oom"):
        return "out of memory: its machine's kernel killed the process"
    if code == -signal.SIGKILL:
        return "its process was killed by SIGKILL"
    if code < 0:
        return f"its process was killed by {_name(-code)}{_last_error_line(message)}"
    return f"its process ended with code {code}{_last_error_line(message)}"


def of_link(message: dict[str, Any], preempted: bool) -> str:
    if preempted:
        return "the cloud preempted its machine"
    why = (message.get("why") or "").splitlines()
    return f"the connection to it ended{': ' + why[-1] if why else ''}"


def of_silence(seconds: float) -> str:
    return f"no sign of life for {seconds:.0f} s: its machine froze or the network to it is cut"


def of_stop() -> str:
    return "its process is stopped (SIGSTOP)"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_error_line(message: dict[str, Any]) -> str:
    lines = [
        line.strip()
        for line in (message.get("tail") or "").splitlines()
        if line.strip() and "[Gloo]" not in line
    ]
    matching = [line for line in lines if any(word in line for word in _ERROR_WORDS)] or lines
    return f": {matching[-1][:300]}" if matching else ""
