"""Errors of the bridge, as seen from the Jupyter server: a stable code and the remedy."""

from __future__ import annotations


class BridgeError(Exception):
    """The bridge cannot be used. `code` is stable; the message contains the failure and the remedy."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
