"""The only module that inspects values on a device: whether a value was freed or is ready, and its kind.

The loop owns its arrays: at any moment it, or another of its threads, may delete one or donate it.
jaxlib ends the process (SIGSEGV) on a readiness query of a deleted array, and when an array is
deleted while another thread waits for it or reads it. So all code queries values here.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from operator import call
from typing import Any

#: Held during the read and the deletion of a value. Reentrant, as a finalizer may delete.
_reading = threading.RLock()


def is_running(value: Any) -> bool:
    """Whether a program still computes the value. False where this is unknown, as for a freed one."""
    try:
        ready, deleted = getattr(value, "is_ready", None), getattr(value, "is_deleted", None)
        if ready is None:
            return False
        # Both in one call of C, which ends at the first true one: between two lines of Python another
        # thread could free the array.
        return not any(map(call, (deleted, ready) if deleted is not None else (ready,)))
    except Exception:
        return False


def is_freed(value: Any) -> bool:
    """Whether the value was deleted, or donated to a program."""
    try:
        deleted = getattr(value, "is_deleted", None)
        return deleted is not None and bool(deleted())
    except Exception:
        return False


def as_number(value: Any) -> float | None:
    """The value as a number, NaN and infinity too. None: no number, not ready yet, or freed."""
    with _reading:
        if is_running(value) or is_freed(value):
            return None
        try:
            # numpy would drop the imaginary part, with a warning in the user's cell.
            return None if getattr(getattr(value, "dtype", None), "kind", "") == "c" else float(value)
        except Exception:
            return None


def described(value: Any) -> str:
    """The type of a value; of an array also what it contains."""
    name = type(value).__name__
    try:
        return f"{name} ({value.dtype}, shape {tuple(value.shape)})"
    except Exception:
        return name


def guard_delete(kind: Any) -> Callable[[], None]:
    """Lets `delete` of jax's arrays wait while one of them is read here, for microseconds. Returns a function
    that undoes it. A donation does not need it: jaxlib itself waits for readers."""
    delete = getattr(kind, "delete", None)
    if not callable(delete):
        return lambda: None

    def guarded(array: Any) -> Any:
        with _reading:
            return delete(array)

    guarded.__doc__ = delete.__doc__
    kind.delete = guarded
    return lambda: setattr(kind, "delete", delete)


def byte_size(value: Any) -> int:
    """Bytes of an array; 0 for a freed one."""
    try:
        return int(value.nbytes)
    except Exception:
        return 0


def wait_until_ready(output: Any) -> bool:
    """Waits for one small array of a tree. False: it was freed, so its end is not known."""
    array = smallest_array(output)
    if array is None:
        return False
    # A separate reference: an array that is deleted while a thread waits for it crashes the process.
    with contextlib.suppress(Exception):
        array = [shard._fully_replicated_shard() for shard in array._arrays]
    for own in array if isinstance(array, list) else [array]:
        try:
            own.block_until_ready()
        except Exception:  # whatever the program failed with, the user's own wait raises it
            return not is_freed(own)
    return True


def all_ready(output: Any) -> bool:
    """Whether the array to wait for is ready; False where it was freed meanwhile."""
    array = smallest_array(output)
    return array is None or (not is_running(array) and not is_freed(array))


_placements: dict[Any, Any] = {}
#: the last request: most requests repeat it
_newest: list[Any] = [None, None]


def placement_of(output: Any) -> Any | None:
    """The devices of an output, where they are known immediately: the same object, or an equal one, for the
    same devices. None: not known."""
    first = output[0] if type(output) in (tuple, list) and output else output
    try:
        sharding = first.sharding
        if sharding is _newest[0]:
            return _newest[1]
        found = _placements.get(sharding)
        if found is None:
            if len(_placements) > 256:
                _placements.clear()
            found = _placements[sharding] = frozenset(sharding.device_set)
        _newest[:] = sharding, found
        return found
    except Exception:  # no array of jax, or a freed one
        return None


def quick_array(output: Any) -> Any | None:
    """The array to inspect, where finding it costs nothing: the output itself, or a number in it."""
    if _is_array(output):
        return output
    if isinstance(output, (tuple, list)):
        return next((leaf for leaf in output if _is_array(leaf) and _cost(leaf)[0] <= 1), None)
    return None


def smallest_array(output: Any) -> Any | None:
    """The array of a tree with the cheapest wait, floats first.

    A loss is a float and survives; a small integer is likely a counter in a state that the next step donates.
    """
    if _is_array(output):
        return output
    if isinstance(output, (tuple, list)):
        top = [leaf for leaf in output if _is_array(leaf)]
        if top and min(map(_cost, top))[0] <= 1:
            return min(top, key=_cost)
    jax = sys.modules.get("jax")
    if jax is None:
        return None
    with contextlib.suppress(Exception):
        leaves = [leaf for leaf in jax.tree_util.tree_leaves(output)[-64:] if _is_array(leaf)]
        return min(leaves, key=_cost, default=None)
    return None


_waitable: dict[type, bool] = {}


def _is_array(value: Any) -> bool:
    kind = type(value)
    known = _waitable.get(kind)
    if known is None:
        # A tracer represents an array while a function is traced; there is nothing to wait for.
        tracer = any(base.__name__ == "Tracer" for base in kind.__mro__)
        known = _waitable[kind] = not tracer and all(
            hasattr(kind, name) for name in ("block_until_ready", "is_deleted")
        )
    return known and not is_freed(value)


def _cost(array: Any) -> tuple[int, bool]:
    try:
        return int(array.size), getattr(array.dtype, "kind", "f") in "iub"
    except Exception:  # freed by another thread meanwhile
        return sys.maxsize, True
