"""Counts the real compilations of a block, and fails when there are more than planned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tpulab_recipes import runtime


class TooManyCompilations(AssertionError):
    """A block compiled more programs than were planned for it."""


@contextmanager
def compile_budget(at_most: int, backend: runtime.Backend | None = None) -> Iterator[None]:
    """Fails with `TooManyCompilations` when the block compiles more than `at_most` programs."""
    measured = backend or runtime.current()
    before = measured.compilations()
    yield
    measured.sync()
    made = measured.compilations() - before
    if made.count > at_most:
        raise TooManyCompilations(
            f"{made.count} programs were compiled ({made.seconds:.1f} s) where {at_most} were planned; look "
            "for shapes, dtypes or Python numbers that change from step to step."
        )
