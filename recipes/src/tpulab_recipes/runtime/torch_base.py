"""Shared by the three PyTorch backends: transfers, seeds, model and optimizer, precision by autocast."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.runtime.backend import Backend
from tpulab_recipes.runtime.precision import Precision, PrecisionName, check_precision
from tpulab_recipes.runtime.torch_group import read_by_one


class TorchBackend(Backend):
    framework: ClassVar[Literal["torch", "jax"]] = "torch"
    #: `scan(step, carry, xs, partition_fn=…)`: a loop of the program, with its gradient; None: there is none.
    scan: Any = None

    @property
    def torch(self) -> Any:
        import torch

        return torch

    @abstractmethod
    def _seed_device(self, seed: int) -> None: ...

    @abstractmethod
    def device_random_state(self) -> Any:
        """Where the device's random numbers are, as a tensor on the host or a plain value."""

    @abstractmethod
    def set_device_random_state(self, state: Any) -> None:
        """Restores a state from `device_random_state`."""

    @abstractmethod
    def _exact_products(self) -> AbstractContextManager[Any]:
        """Within it products of 32-bit matrices keep 32 bits."""

    def seed(self, seed: int) -> Any:
        random.seed(seed)
        np.random.seed(seed % 2**32)
        self.torch.manual_seed(seed)
        self._seed_device(seed)

    def to_device(self, tree: Any) -> Any:
        return self._map(self._place, tree)

    def to_host(self, tree: Any) -> Any:
        """Tensors on the host CPU, each in its own memory; other leaves unchanged."""
        torch = self.torch
        return self._map(lambda leaf: _own_copy(leaf) if isinstance(leaf, torch.Tensor) else leaf, tree)

    def _place(self, leaf: Any) -> Any:
        """One leaf of `to_device`."""
        leaf = self._narrowed(leaf)
        return leaf.to(self.device()) if isinstance(leaf, self.torch.Tensor) else leaf

    def _narrowed(self, leaf: Any) -> Any:
        """NumPy's arrays as tensors, 64-bit floats as 32-bit ones, other leaves as they are."""
        torch = self.torch
        if isinstance(leaf, np.ndarray | np.generic):
            leaf = torch.from_numpy(np.array(leaf))
        floats = isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float64
        return leaf.to(torch.float32) if floats else leaf

    def from_main(self, read: Callable[[], Any]) -> Any:
        return read_by_one(read, is_main=self.world().is_main)

    def prepare(self, model: Any, *, shard: bool = False) -> Any:  # noqa: ARG002 - of those that can
        """The module on the devices; parameters keep their identity for the optimizer made after.

        Each device has the same whole parameters, or, with `shard`, its slice of them: for models that one
        chip cannot hold. `shard_optimizer` then slices the optimizer's state alike, and checkpoints are whole
        either way. Raises `DeviceRuntimeError` (`unsupported`) where there is nothing to slice over.
        """
        return model.to(self.device())

    def recompute(self, function: Any, *args: Any) -> Any:
        """`function(*args)`, whose activations the backward pass computes again instead of keeping them, with
        the same random numbers. At least one of `args` requires a gradient."""
        from torch.utils.checkpoint import checkpoint

        return checkpoint(function, *args, use_reentrant=False)

    def divide_rows(self, tensor: Any) -> Any:
        """An activation, with its rows (and those of its gradient) divided among the devices as a batch's
        are. Where parameters are in slices, a compiler may otherwise divide it along another axis."""
        return tensor

    def shard_optimizer(self, optimizer: Any) -> None:
        """Slices the state of an optimizer as its parameters are; call it after the state was made, and
        after a checkpoint was loaded. Does nothing where parameters are whole."""

    def mean_over_processes(self, value: Any) -> Any:
        """A tensor's mean over the processes, where each has its own: a loss that is divided by it has the
        gradient of one process with all rows, after `optimizer_step` has averaged the gradients."""
        return value

    def optimizer_step(self, optimizer: Any) -> None:
        """One update. Averages gradients first where each process has its own."""
        optimizer.step()

    def shards(self, array: Any) -> list[NDArray[Any]]:
        return [array.detach().cpu().numpy()]

    @contextmanager
    def precision(self, name: PrecisionName) -> Iterator[Precision]:
        torch = self.torch
        if check_precision(name) == "float32":
            with self._exact_products():
                yield Precision(name, torch.float32, lambda tree: tree)
            return

        def halved(leaf: Any) -> Any:
            floating = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return leaf.to(torch.bfloat16) if floating else leaf

        def cast(tree: Any) -> Any:
            return self._map(halved, tree)

        with torch.autocast(torch.device(self.device()).type, dtype=torch.bfloat16):
            yield Precision(name, torch.bfloat16, cast)


def _own_copy(tensor: Any) -> Any:
    """On the host CPU, in its own memory: a step may keep changing the original while a checkpoint is
    written."""
    detached = tensor.detach()
    return detached.clone() if detached.device.type == "cpu" else detached.cpu()


def no_context() -> AbstractContextManager[None]:
    return nullcontext()
