"""What can go wrong with the bridge, as seen from the Jupyter server: a stable code and what to do."""

from __future__ import annotations


class BridgeError(Exception):
    """The bridge cannot be used. `code` is stable; the message says what failed and what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
