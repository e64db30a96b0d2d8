"""What the three PyTorch backends share: transfers, seeds, model and optimizer, precision by autocast."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.runtime.backend import Backend
from tpulab_recipes.runtime.precision import Precision, PrecisionName, check_precision


class TorchBackend(Backend):
    framework: ClassVar[Literal["torch", "jax"]] = "torch"

    @property
    def torch(self) -> Any:
        import torch

        return torch

    @abstractmethod
    def _seed_device(self, seed: int) -> None: ...

    @abstractmethod
    def _exact_products(self) -> AbstractContextManager[Any]:
        """Within it products of 32-bit matrices keep 32 bits."""

    def seed(self, seed: int) -> Any:
        random.seed(seed)
        np.random.seed(seed % 2**32)
        self.torch.manual_seed(seed)
        self._seed_device(seed)

    def to_device(self, tree: Any) -> Any:
        return self._map(lambda leaf: self._host_tensor(leaf, self.device()), tree)

    def to_host(self, tree: Any) -> Any:
        """Tensors on the processor, each with memory of its own; other leaves as they are."""
        torch = self.torch
        return self._map(lambda leaf: _own_copy(leaf) if isinstance(leaf, torch.Tensor) else leaf, tree)

    def _host_tensor(self, leaf: Any, device: Any) -> Any:
        torch = self.torch
        if isinstance(leaf, np.ndarray | np.generic):
            leaf = torch.from_numpy(np.array(leaf))
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.dtype == torch.float64:
            leaf = leaf.to(torch.float32)
        return leaf.to(device)

    def prepare(self, model: Any) -> Any:
        """The module on the devices, the same in each; parameters keep their identity for the optimizer made
        after."""
        return model.to(self.device())

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
    """On the processor, with memory of its own: a step may go on changing the original while a checkpoint is
    written."""
    detached = tensor.detach()
    return detached.clone() if detached.device.type == "cpu" else detached.cpu()


def no_context() -> AbstractContextManager[None]:
    return nullcontext()
