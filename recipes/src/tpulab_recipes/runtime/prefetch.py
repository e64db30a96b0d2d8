"""Prepares the next batches on a thread, so that the device does not wait for the host."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

_END = object()
#: How often a thread that waits for space checks whether it should end.
_POLL_S = 0.1


@contextmanager
def prefetched(items: Iterable[Any], ahead: int) -> Iterator[Iterator[Any]]:
    """Iterates over `items`, of which a thread keeps up to `ahead` ready; 0 means no thread.

    What the iterable raises is raised here, after the items before it. The thread ends with the block.
    """
    if ahead < 0:
        raise ValueError(f"`ahead` counts batches and is {ahead}; use 0 for none.")
    if ahead == 0:
        yield iter(items)
        return
    ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(maxsize=ahead)
    left = threading.Event()

    def put(item: Any, error: BaseException | None) -> bool:
        while not left.is_set():
            try:
                ready.put((item, error), timeout=_POLL_S)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not put(item, None):
                    return
        except BaseException as error:
            put(_END, error)
        else:
            put(_END, None)
        finally:
            # The processes of a generator end here, not when the frames of an error are freed.
            if isinstance(items, Generator):
                items.close()

    def read() -> Iterator[Any]:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item

    thread = threading.Thread(target=work, name="tpulab-prefetch", daemon=True)
    thread.start()
    try:
        yield read()
    finally:
        left.set()
        thread.join()
