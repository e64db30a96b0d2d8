"""AdamW for models of many small tensors on a compiled device.

PyTorch's AdamW updates each tensor by itself, so its part of the program grows with their number: for a
generator of 230 small tensors, XLA compiles the update as long as everything else. Here the moments of a
group are one vector, which is updated as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tpulab_recipes.runtime import Backend
from tpulab_recipes.torch_training.learning_rate import use_tensor_learning_rate
from tpulab_recipes.torch_training.optimizer_state import create_optimizer_state, settle_parameters

_MOMENTS = ("exp_avg", "exp_avg_sq")


def make_flat_adamw(backend: Backend, groups: Sequence[dict[str, Any]], **options: Any) -> torch.optim.AdamW:
    """AdamW (`lr`, `betas`, `eps`, `weight_decay`) of parameters on the device, its state made: `FlatAdamW`
    where steps are compiled, PyTorch's own elsewhere. Either resumes from the other's state."""
    kind = FlatAdamW if backend.compiles_steps else torch.optim.AdamW
    optimizer = kind([dict(group) for group in groups], **options)
    use_tensor_learning_rate(backend, optimizer)
    if isinstance(optimizer, FlatAdamW):
        optimizer.place(backend)
        settle_parameters(optimizer)
    else:
        create_optimizer_state(optimizer)
    return optimizer


def load_flat_adamw(backend: Backend, optimizer: torch.optim.AdamW, state: dict[str, Any]) -> None:
    """Puts AdamW's `state`, of any backend, into an optimizer of `make_flat_adamw`."""
    optimizer.load_state_dict(state)
    use_tensor_learning_rate(backend, optimizer)
    if isinstance(optimizer, FlatAdamW):
        optimizer.place(backend)


class FlatAdamW(torch.optim.AdamW):
    """`state_dict` and `load_state_dict` have AdamW's format. Every parameter that requires a gradient must
    get one at each step. The state of a group stands beside its first parameter: `step`, Float[], and the
    moments, Float[value]."""

    def place(self, backend: Backend) -> None:
        """Makes the state, or puts what was loaded onto the device."""
        for group in self.param_groups:
            trained = _trained(group)
            held = self.state.get(trained[0]) or {
                "step": torch.zeros(()),
                **{name: torch.zeros(sum(each.numel() for each in trained)) for name in _MOMENTS},
            }
            self.state[trained[0]] = {name: backend.replicate(value) for name, value in held.items()}

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Loshchilov & Hutter 2019, algorithm 2."""
        assert closure is None
        for group in self.param_groups:
            trained, (beta1, beta2), rate = _trained(group), group["betas"], group["lr"]
            held, gradient = self.state[trained[0]], _flat([each.grad for each in trained])
            step, first, second = held["step"] + 1, held["exp_avg"], held["exp_avg_sq"]
            first = first + (1 - beta1) * (gradient - first)
            second = beta2 * second + (1 - beta2) * gradient.square()
            width = (second / (1 - beta2**step)).sqrt() + group["eps"]
            values = _flat(trained) * (1 - rate * group["weight_decay"])
            values = values - rate / (1 - beta1**step) * first / width
            for each, value in zip(trained, _parts(values, trained), strict=True):
                each.copy_(value)
            held.update(step=step, exp_avg=first, exp_avg_sq=second)

    def state_dict(self) -> dict[str, Any]:
        """On the host: AdamW's, for each parameter."""
        found, state = super().state_dict(), {}
        for group, named in zip(self.param_groups, found["param_groups"], strict=True):
            numbers = dict(zip(map(id, group["params"]), named["params"], strict=True))
            trained = _trained(group)
            held = {name: value.cpu() for name, value in self.state[trained[0]].items()}
            parts = {name: _parts(held[name], trained) for name in _MOMENTS}
            for place, each in enumerate(trained):
                moments = {name: parts[name][place].clone() for name in _MOMENTS}
                state[numbers[id(each)]] = {"step": held["step"].clone(), **moments}
        return found | {"state": state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """On the host until `place` is called."""
        super().load_state_dict({**state_dict, "state": {}})
        for group, named in zip(self.param_groups, state_dict["param_groups"], strict=True):
            numbers = dict(zip(map(id, group["params"]), named["params"], strict=True))
            held = [state_dict["state"][numbers[id(each)]] for each in _trained(group)]
            moments = {name: _flat([each[name] for each in held]).cpu() for name in _MOMENTS}
            step = torch.as_tensor(held[0]["step"], dtype=torch.float32).cpu()
            self.state[_trained(group)[0]] = {"step": step, **moments}


def _trained(group: dict[str, Any]) -> list[torch.Tensor]:
    return [each for each in group["params"] if each.requires_grad]


def _flat(tensors: Sequence[Any]) -> torch.Tensor:
    return torch.cat([each.reshape(-1) for each in tensors])


def _parts(vector: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    parts = vector.split([each.numel() for each in like])
    return [part.view(each.shape) for part, each in zip(parts, like, strict=True)]
