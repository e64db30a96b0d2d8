"""Errors of the device seam. `code` is stable, for programs."""

from __future__ import annotations

from typing import Literal

RuntimeErrorCode = Literal[
    "unknown_backend",
    "framework_missing",
    "no_chip",
    "wrong_platform",
    "too_late",
    "bad_batch",
    "bad_program",
    "too_large",
    "unsupported",
]


class DeviceRuntimeError(RuntimeError):
    """A backend, a chip or a placement that is not available. The message has the remedy.

    Codes: `unknown_backend` (no such name), `framework_missing` (its package is not installed here),
    `no_chip` (a TPU was requested and there is none), `wrong_platform` (chips exist, but the framework
    runs on the host CPU), `too_late` (something that must be chosen before the first tensor), `bad_batch`
    (its rows cannot be divided among the devices), `bad_program` (a file that is no exported step, or a
    step that is several programs), `too_large` (a step needs more memory than a chip has),
    `unsupported` (this backend has no such thing).
    """

    def __init__(self, code: RuntimeErrorCode, message: str) -> None:
        super().__init__(message)
        self.code: RuntimeErrorCode = code


def several_programs() -> DeviceRuntimeError:
    """For a step that compiles to several programs instead of one."""
    return DeviceRuntimeError(
        "bad_program",
        "This step reads a value back while it runs (`.item()`, a comparison, a print), so it is several "
        "programs; keep values on the device until the step is done.",
    )
