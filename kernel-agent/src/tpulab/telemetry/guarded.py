"""TPULab's own threads: an error never ends one, and starting one never fails in the user's code."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

#: Pause between two tries of a thread whose work fails each time.
PAUSE_S = 0.2

_log = logging.getLogger("tpulab")
_logged: set[str] = set()


def log_once(what: str, error: BaseException) -> None:
    """An internal fault: one line for each place and kind, as it may come ten times a second."""
    identity = f"{what}: {type(error).__name__}"
    if identity not in _logged:
        _logged.add(identity)
        _log.warning("tpulab: %s: %r", what, error)


def start_thread(name: str, work: Callable[[], None], *, again: bool = True) -> threading.Thread | None:
    """Runs `work` on a daemon thread. Its exceptions are logged once, and with `again` it restarts.

    None: the process can start no further thread.
    """

    def guarded() -> None:
        while True:
            try:
                work()
            except Exception as error:
                log_once(f"the thread {name} failed", error)
                if again:
                    time.sleep(PAUSE_S)
                    continue
            return

    thread = threading.Thread(target=guarded, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # out of threads, or the interpreter is ending
        log_once(f"the thread {name} cannot start", error)
        return None
    return thread
