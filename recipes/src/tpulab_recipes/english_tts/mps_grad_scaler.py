"""Loss scaling for float16 on Apple's GPUs: gradients below float16's smallest number would be lost."""

from __future__ import annotations

from typing import Any

import torch


class MPSGradScaler(torch.amp.GradScaler):
    """PyTorch's own, which knows MPS since 2.8, with the seed's arguments. Not for a lazy device: `step`
    reads one flag back from it."""

    def __init__(self, init_scale: float = 65_536.0, **options: Any) -> None:
        super().__init__("mps", init_scale, **options)
