"""Several hosts in one JAX program: how they wait for each other and divide independent work."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

#: How long a host waits for the others to compile. The big network takes minutes on a busy host.
COMPILE_LIMIT_MS = 60 * 60 * 1000

#: Each barrier has its own name. All hosts run the same program, so they count alike.
_barriers = itertools.count()


def wait_for_all(what: str) -> None:
    """Returns when every host has come here.

    At a collective, the first host waits half a minute for the others (XLA:CPU over Gloo). Compiling can take
    longer than that.
    """
    if jax.process_count() > 1:
        key = f"{what} {next(_barriers)}"
        import orbax.checkpoint as ocp

        ocp.multihost.get_barrier_sync_fn()(key=key, timeout_ms=COMPILE_LIMIT_MS)


def compile_on_all_hosts(program: Any, *arguments: Any) -> None:
    """No host runs the program before all have compiled it."""
    if jax.process_count() > 1:
        program.lower(*arguments).compile()
        wait_for_all("program compiled")


#: Makes the items of a half-open range of numbers: arrays with a row for each.
Make = Callable[[int, int], tuple[np.ndarray, ...]]


def batches_over_hosts(count: int, batch: int, make: Make) -> Iterator[tuple[np.ndarray, ...]]:
    """`make` of `range(count)`, in batches and in order, the same on every host. Each host makes
    its share of the batches; what it makes must not depend on which host it is."""
    process, processes = jax.process_index(), jax.process_count()
    firsts = range(0, count, batch)
    for turn in range(0, len(firsts), processes):
        dealt = firsts[turn : turn + processes]
        # In the last round some hosts have no work left. They repeat another host's batch, because all must
        # contribute arrays of one shape.
        first = dealt[process if process < len(dealt) else 0]
        made = make(first, min(first + batch, count))
        wait_for_all("turn made")
        together = [_of_all_hosts(rows, batch) for rows in made]
        for place, start in enumerate(dealt):
            yield tuple(rows[place, : count - start] for rows in together)


def _of_all_hosts(rows: np.ndarray, batch: int) -> np.ndarray:
    """[host, row, ...]; batches that are not full are filled up with zeros."""
    missing = np.zeros((batch - len(rows), *rows.shape[1:]), rows.dtype)
    whole = np.concatenate([rows, missing])
    return whole[None] if jax.process_count() == 1 else np.asarray(multihost_utils.process_allgather(whole))
