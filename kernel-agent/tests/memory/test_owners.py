"""Finding the owners of memory beside a loop that changes its containers (case T3, F1, F8)."""

from __future__ import annotations

import collections
import itertools
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import pytest

from tpulab.memory import owners
from tpulab.memory.owners import BUDGET_S, arrays_by_owner


@pytest.fixture
def space(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The user's variables."""
    variables: dict[str, Any] = {}
    monkeypatch.setattr(owners, "_roots", lambda: iter([("name", *pair) for pair in list(variables.items())]))
    return variables


def names_of(array: Any) -> list[str]:
    found = [entry for entry in arrays_by_owner()[0] if entry["shape"] == list(array.shape)]
    return found[0]["names"]


def test_arrays_are_found_by_their_paths(space: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine may not reach the end of the long list within the budget.
    monkeypatch.setattr(owners, "BUDGET_S", 10.0)

    class Holder:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

    Point = collections.namedtuple("Point", "left right")
    array = jnp.ones((3, 17, 29))
    for value, path in [
        (array, ""),
        ({"a": [array]}, "['a'][0]"),
        (Holder({1: (array,)}), ".inner[1][0]"),
        (Point(0, array), ".right"),
        (collections.deque([0, array]), "[1]"),
        (collections.defaultdict(list, x=[array]), "['x'][0]"),
        ([0.0] * 100_000 + [array], "[100000]"),
    ]:
        space.clear()
        space["v"] = value
        assert names_of(array) == [f"v{path}"]


def test_the_arrays_of_a_list_are_one_entry_although_the_newest_has_its_own_name(
    space: dict[str, Any],
) -> None:
    """Case C03."""
    history = [jnp.full((11, 19), float(n)) for n in range(6)]
    space["w"], space["history"] = history[-1], history
    [entry] = [entry for entry in arrays_by_owner()[0] if entry["shape"] == [11, 19]]
    assert (entry["count"], entry["bytes"]) == (6, 6 * 11 * 19 * 4)
    assert any(name.startswith("history[") for name in entry["names"])


def test_a_huge_container_uses_up_the_budget_and_hides_no_other(space: dict[str, Any]) -> None:
    array = jnp.ones((5, 13, 31))
    space["numbers"] = list(range(3_000_000))
    space["lists"] = [[number] for number in range(300_000)]
    space["params"] = {"w": array}
    tracemalloc.start()
    try:
        began = time.thread_time()
        assert names_of(array) == ["params['w']"]
        spent = time.thread_time() - began
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2**20
    # For this thread's own work, whatever the machine does beside it; tracing makes it several times slower.
    assert spent < 20 * BUDGET_S


@pytest.mark.parametrize("kind", ["set", "dict", "attributes", "list", "deque"])
def test_containers_may_change_while_they_are_inspected(
    kind: str, space: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each switch of threads costs processor time, and there are many.
    monkeypatch.setattr(owners, "BUDGET_S", 10.0)

    class Holder:
        pass

    array, holder = jnp.ones((7, 11, 23)), Holder()
    container: Any = {"set": set, "dict": dict, "list": list, "deque": collections.deque}.get(kind, dict)()
    space["grows"] = [holder, container, {"array": array}]
    stop = threading.Event()

    def grow() -> None:
        for number in itertools.cycle(range(50_000)):
            if stop.is_set():
                return
            key = (number,)
            if kind == "attributes":
                setattr(holder, f"a{number % 1000}", key)
                if number % 3 == 0:
                    vars(holder).pop(f"a{number % 999}", None)
            elif kind == "set":
                container.discard(key) if key in container else container.add(key)
            elif kind == "dict":
                container.pop(key) if key in container else container.update({key: key})
            elif len(container) > 40_000:
                container.clear()
            else:
                container.append(key)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=grow)
    thread.start()
    try:
        for _ in range(20):
            assert names_of(array) == ["grows[2]['array']"]
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(before)


def test_user_code_is_not_run(space: dict[str, Any]) -> None:
    class Lazy(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            raise AssertionError("it would be loaded")

        def __iter__(self) -> Iterator[Any]:
            raise AssertionError("it would be loaded")

        def __getattr__(self, name: str) -> Any:
            raise AssertionError("it would be computed")

    class File(collections.abc.Mapping):  # type: ignore[type-arg]
        def __getitem__(self, key: Any) -> Any:
            raise AssertionError("it would be read")

        def __iter__(self) -> Iterator[Any]:
            raise AssertionError("it would be read")

        def __len__(self) -> int:
            raise AssertionError("it would be read")

    array = jnp.ones((2, 19, 37))
    space["lazy"], space["file"] = Lazy(a=array), File()
    assert names_of(array) == ["lazy['a']"]


def test_an_array_that_is_freed_meanwhile_is_left_out(space: dict[str, Any]) -> None:
    arrays = [jnp.ones((3, 41)) + number for number in range(5)]
    space["arrays"] = arrays
    arrays[0].delete()
    [entry] = [entry for entry in arrays_by_owner()[0] if entry["shape"] == [3, 41]]
    assert entry["count"] == 4
