"""AdamW as transformers are trained with it, ready for a compiled step."""

from __future__ import annotations

from typing import Any

from tpulab_recipes.runtime.torch_base import TorchBackend
from tpulab_recipes.torch_training.learning_rate import use_tensor_learning_rate
from tpulab_recipes.torch_training.optimizer_state import create_optimizer_state, share_step_counter


def make_adamw(
    backend: TorchBackend,
    model: Any,
    *,
    learning_rate: float,
    weight_decay: float,
    betas: tuple[float, float] = (0.9, 0.999),
    clip_norm: float = 0.0,
) -> Any:
    """AdamW of the parameters that require gradients, its state made and placed as they are.

    Args:
        model: on the device (`backend.prepare`).
        weight_decay: of matrices; norms and biases have none.
        clip_norm: largest norm of all gradients together; 0: not clipped.
    """
    import torch

    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(
        [
            {"params": [each for each in trained if each.dim() > 1], "weight_decay": weight_decay},
            {"params": [each for each in trained if each.dim() <= 1], "weight_decay": 0.0},
        ],
        lr=learning_rate,
        betas=betas,
    )
    if clip_norm:

        def clip(*_: Any) -> None:
            torch.nn.utils.clip_grad_norm_(trained, clip_norm, foreach=False)

        # Inside the optimizer's step: by then the gradients of all processes have been averaged.
        optimizer.register_step_pre_hook(clip)
    use_tensor_learning_rate(backend, optimizer)
    create_optimizer_state(optimizer)
    share_step_counter(optimizer)
    backend.shard_optimizer(optimizer)
    return optimizer
