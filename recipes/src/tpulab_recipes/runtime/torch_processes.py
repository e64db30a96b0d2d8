"""One process for each device, connected by torch.distributed: which of them prints and writes, which rows
each of them reads, and what they compute together.

`python -m tpulab_recipes.runtime.torch_launch` starts the processes and names them in the environment; the
backend makes their group, unless the program has (`torch.distributed.init_process_group`). Without either a
process is alone.
"""

from __future__ import annotations

import atexit
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.runtime.backend import Reduction
from tpulab_recipes.runtime.errors import DeviceRuntimeError
from tpulab_recipes.runtime.figures import World
from tpulab_recipes.runtime.torch_base import TorchBackend
from tpulab_recipes.runtime.torch_group import group_size
from tpulab_recipes.runtime.torch_slices import is_sliced, slice_parameters, sliced_as, whole

#: Bytes sent in one message. With one message per tensor, a network with hundreds of small tensors would
#: wait for the latency of each.
BUCKET_BYTES = 25 * 2**20
#: How long a process waits for the others to start.
START_LIMIT = timedelta(minutes=10)
_LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class TorchProcessesBackend(TorchBackend):
    #: The transport of tensors between the processes.
    transport: ClassVar[str] = "gloo"

    def join(self) -> None:
        """Makes the group of the processes that were launched together; does nothing where there is none, or
        one already."""
        distributed = self.torch.distributed
        if not distributed.is_available() or distributed.is_initialized():
            return
        if int(os.environ.get("WORLD_SIZE", "1")) < 2:
            return
        missing = [name for name in _LAUNCHED if not os.environ.get(name)]
        if missing:
            raise DeviceRuntimeError(
                "unsupported",
                f"WORLD_SIZE={os.environ['WORLD_SIZE']} is set and {', '.join(missing)} is not; start the "
                "processes with `python -m tpulab_recipes.runtime.torch_launch`, or unset WORLD_SIZE.",
            )
        # Its functions have the group as a default argument. Imported later, by any optimizer, they would
        # hold it for ever; its threads would run on while the process ends, which then sometimes aborts.
        importlib.import_module("torch.distributed.nn")
        distributed.init_process_group(self.transport, timeout=START_LIMIT)
        atexit.register(self._leave)

    def _leave(self) -> None:
        if self.torch.distributed.is_initialized():
            self.torch.distributed.destroy_process_group()

    def world(self) -> World:
        # Alone, a process computes on one device; the other devices wait for their own processes.
        count = group_size()
        rank = self.torch.distributed.get_rank() if count > 1 else 0
        return World(rank, count, 1, count, one_program=count == 1)

    def prepare(self, model: Any, *, shard: bool = False) -> Any:
        world = self.world()
        if shard and world.one_program:
            raise DeviceRuntimeError(
                "unsupported",
                f'The backend "{self.name}" divides parameters among processes, and this one is alone; start '
                "one for each device with `python -m tpulab_recipes.runtime.torch_launch --nproc-per-node N`"
                ", or train a smaller model or fewer of its parameters (LoRA).",
            )
        placed = super().prepare(model)
        if not world.one_program:
            # Processes may have drawn their first weights apart, or loaded other ones.
            broadcast = self.torch.distributed.broadcast
            with self.torch.no_grad():
                tensors = [*placed.parameters(), *placed.buffers()]
                self._in_buckets(tensors, lambda bucket: broadcast(bucket, 0))
        if shard:
            from torch.distributed.device_mesh import init_device_mesh

            slice_parameters(placed, init_device_mesh(self.platform, (world.process_count,)))
        return placed

    def shard_optimizer(self, optimizer: Any) -> None:
        for parameter, state in optimizer.state.items():
            for name, value in state.items():
                if getattr(value, "shape", None) == parameter.shape:
                    state[name] = sliced_as(value, parameter)

    def to_host(self, tree: Any) -> Any:
        return super().to_host(tree if self.world().one_program else self._map(whole, tree))

    def shards(self, array: Any) -> list[NDArray[Any]]:
        return super().shards(array.to_local() if is_sliced(array) else array)

    def own_rows(self, tree: Any) -> Any:
        world = self.world()
        if world.one_program:
            return tree

        def own(leaf: Any) -> Any:
            if not getattr(leaf, "shape", ()):
                return leaf
            if len(leaf) % world.process_count:
                raise DeviceRuntimeError(
                    "bad_batch",
                    f"A batch of {len(leaf)} rows cannot be divided among {world.process_count} processes; "
                    f"choose a multiple of {world.process_count}.",
                )
            share = len(leaf) // world.process_count
            return leaf[world.process_index * share : (world.process_index + 1) * share]

        return self._map(own, tree)

    def mean_over_processes(self, value: Any) -> Any:
        world = self.world()
        if world.one_program:
            return value
        total = value.detach().clone()
        self.torch.distributed.all_reduce(total)
        return total / world.process_count

    def optimizer_step(self, optimizer: Any) -> None:
        world = self.world()
        if not world.one_program:

            def mean(bucket: Any) -> None:
                self.torch.distributed.all_reduce(bucket)
                bucket /= world.process_count

            parameters = (p for group in optimizer.param_groups for p in group["params"])
            gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
            # Sliced gradients have been averaged already, where they were made.
            self._in_buckets([one for one in gradients if not is_sliced(one)], mean)
        optimizer.step()

    def _in_buckets(self, tensors: Sequence[Any], change: Callable[[Any], None]) -> None:
        """Has `change` change all tensors in place, in flat pieces of one type and at most `BUCKET_BYTES`."""
        for bucket in _buckets(tensors):
            flat = self.torch.cat([tensor.detach().reshape(-1) for tensor in bucket])
            change(flat)
            pieces = flat.split([tensor.numel() for tensor in bucket])
            for tensor, piece in zip(bucket, pieces, strict=True):
                tensor.detach().copy_(piece.view_as(tensor))

    def _reduce_over_processes(self, values: NDArray[np.float64], how: Reduction) -> NDArray[np.float64]:
        parts: list[Any] = [None] * self.world().process_count
        self.torch.distributed.all_gather_object(parts, values)
        reduce: Any = {"mean": np.mean, "sum": np.sum, "max": np.max}[how]
        reduced: NDArray[np.float64] = reduce(np.stack(parts), axis=0)
        return reduced


def _buckets(tensors: Sequence[Any]) -> Iterator[list[Any]]:
    by_type: dict[Any, list[Any]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.dtype, []).append(tensor)
    for alike in by_type.values():
        bucket: list[Any] = []
        size = 0
        for tensor in alike:
            held = tensor.numel() * tensor.element_size()
            if bucket and size + held > BUCKET_BYTES:
                yield bucket
                bucket, size = [], 0
            bucket.append(tensor)
            size += held
        yield bucket
