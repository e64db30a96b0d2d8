"""One process for each device, brought together by torch.distributed: whose turn it is to say what, and what
they reckon together.

Who starts the processes also makes their group: `python -m torch.distributed.run`, and in the program
`torch.distributed.init_process_group`. Without one a process is alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.runtime.backend import Reduction
from tpulab_recipes.runtime.figures import World
from tpulab_recipes.runtime.torch_base import TorchBackend


class TorchProcessesBackend(TorchBackend):
    def world(self) -> World:
        distributed = self.torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            count = distributed.get_world_size()
            return World(distributed.get_rank(), count, 1, count, one_program=count == 1)
        # Alone, a process computes on one device; the others wait for processes of their own.
        return World(0, 1, 1, 1, one_program=True)

    def optimizer_step(self, optimizer: Any) -> None:
        world = self.world()
        if not world.one_program:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self.torch.distributed.all_reduce(parameter.grad)
                        parameter.grad /= world.process_count
        optimizer.step()

    def _reduce_over_processes(self, values: NDArray[np.float64], how: Reduction) -> NDArray[np.float64]:
        parts: list[Any] = [None] * self.world().process_count
        self.torch.distributed.all_gather_object(parts, values)
        reduce: Any = {"mean": np.mean, "sum": np.sum, "max": np.max}[how]
        reduced: NDArray[np.float64] = reduce(np.stack(parts), axis=0)
        return reduced
