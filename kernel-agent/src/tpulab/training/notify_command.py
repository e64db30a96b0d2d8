"""A command of the user that runs when a training has ended: for users without an open page.

`tpulab.run(..., notify="command")`. The command's environment describes the run.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tpulab.telemetry.clocks import now_ns
from tpulab.telemetry.guarded import start_thread

if TYPE_CHECKING:
    from tpulab.measure.runs import Run
    from tpulab.telemetry.messages import RunMessage

#: Prefix of the run's name in the environment, and in the documentation (`docs/control.md`).
PREFIX = "TPULAB_RUN_"


class NotifyCommand:
    """Called by the agent's thread after the last step of the run has been recorded; never waits.

    A string is a shell command, a sequence is a program with its arguments. It outlives this process. Its
    output is discarded; its failure is reported as a warning.
    """

    def __init__(self, command: str | Sequence[str], warn: Callable[..., None]) -> None:
        self._command = command if isinstance(command, str) else [str(part) for part in command]
        self._warn = warn

    def __call__(self, run: Run, message: RunMessage) -> None:
        try:
            process = subprocess.Popen(
                self._command,
                shell=isinstance(self._command, str),
                env={**os.environ, **facts(run, message)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except Exception as error:  # the report of this and other runs must continue
            self._warn("the notify command of the run %r could not be started: %s", run.name, error)
            return
        # Waited for, so that no zombie is left and an error in the command is noticed.
        start_thread("tpulab-notify", lambda: self._reap(process, run.name), again=False)

    def _reap(self, process: subprocess.Popen[bytes], name: str) -> None:
        status = process.wait()
        if status != 0:
            self._warn("the notify command of the run %r failed with status %d", name, status)


def facts(run: Run, message: RunMessage) -> dict[str, str]:
    """The environment of the command; unknown values are left out."""
    control = message.get("control")
    found = {
        "ID": run.id,
        "NAME": run.name,
        # A stopped run has finished too; its control state distinguishes the two.
        "STATE": control["state"]
        if control is not None and control["state"] == "stopped"
        else message["state"],
        "STEPS": str(run.closed),
        "TOTAL": str(run.total) if run.total is not None else "",
        "SECONDS": f"{(now_ns() - run.started_ns) / 1e9:.1f}",
        "METRICS": json.dumps(
            {name: value if math.isfinite(value) else str(value) for name, value in run.metrics.items()}
        ),
        "ERROR": run.error or "" if message["state"] == "failed" else "",
        "LOG": (control["log"] or "") if control is not None else "",
    }
    # The operating system accepts no zero bytes.
    return {PREFIX + name: value.replace("\0", "") for name, value in found.items() if value}
