"""What a lazy runtime must tell so that its steps can be measured; `lazy_watch` works with it.

`torch_xla_runtime` fills it for torch_xla; one for torch_tpu needs the same few figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from tpulab.telemetry.messages import DevicesMessage

Launch = Callable[[], Any]
Value = Any
Read = Callable[[], Value]


class Execution(NamedTuple):
    """A program that has run: when it ended, and how long it took from the moment it was queued."""

    end_unix_ns: int
    duration_ns: int


class LazyRuntime(Protocol):
    """Nothing here may initialise the runtime, wait for a device, or raise."""

    name: str

    def attach(self, around_launch: Callable[[Launch], Any], around_wait: Callable[[Launch], Any]) -> bool:
        """Has each launch of a traced graph go through `around_launch`, and each wait of a loader for an item
        through `around_wait`; both call what they are given. False: the place to do so is not there."""

    def detach(self) -> None:
        """Puts back what was there."""

    def reads(self) -> int:
        """How often a value of a tensor was asked for so far. Cheap: it is asked once a step."""

    def wrap_reads(self, around: Callable[[Read], Value]) -> Callable[[], None]:
        """Has each such read go through `around`. Answers what takes that back."""

    def compilations(self) -> int:
        """Number of programs compiled so far. Cheap: it is asked at each launch."""

    def compile_ns(self) -> int:
        """Time spent compiling so far."""

    def launched(self) -> int:
        """Number of programs queued so far."""

    def executions(self) -> tuple[int, Sequence[Execution]]:
        """Number of programs that have run, and the newest of them, oldest first."""

    def devices(self) -> DevicesMessage | None:
        """The devices, once the user's code has initialised the runtime."""
