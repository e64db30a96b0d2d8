"""Loss scaling for float16 on Apple's GPUs, with the interface, the numbers and the state of
`torch.amp.GradScaler`.

Gradients below float16's smallest number are lost, so the loss is multiplied by a large scale and the
gradients are divided by it again, *before* they are clipped. Where one overflows, the update is left out and
the scale is lowered; after `growth_interval` updates without, it is raised.
"""

from __future__ import annotations

from typing import Any

import torch


class MPSGradScaler:
    """Not for a lazy device: `step` reads one flag back from the device."""

    def __init__(
        self,
        init_scale: float = 65_536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if growth_factor <= 1 or not 0 < backoff_factor < 1 or growth_interval < 1 or init_scale <= 0:
            raise ValueError(
                "A scaler needs init_scale > 0, growth_factor > 1, 0 < backoff_factor < 1 and "
                "growth_interval >= 1."
            )
        self._scale, self._growth_tracker, self._enabled = float(init_scale), 0, enabled
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval = growth_interval
        #: of each optimizer since the last update: whether a gradient was not finite
        self._found: dict[int, torch.Tensor] = {}
        self._stepped: set[int] = set()

    def is_enabled(self) -> bool:
        return self._enabled

    def get_scale(self) -> float:
        return self._scale if self._enabled else 1.0

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * self._scale if self._enabled else loss

    @torch.no_grad()
    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients by the scale, in place. Raises `RuntimeError` when that was done already."""
        if not self._enabled:
            return
        if id(optimizer) in self._found:
            raise RuntimeError("unscale_ was called already for this optimizer since the last update.")
        grads = [
            each.grad for group in optimizer.param_groups for each in group["params"] if each.grad is not None
        ]
        if not grads:
            raise RuntimeError("unscale_ found no gradients; call backward first.")
        for grad in grads:
            grad.mul_(1.0 / self._scale)
        # One flag, added up on the device.
        self._found[id(optimizer)] = sum((~torch.isfinite(grad)).any().float() for grad in grads)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step()`, or nothing where a gradient is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if id(optimizer) in self._stepped:
            raise RuntimeError("step was called already for this optimizer since the last update.")
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return optimizer.step(*args, **kwargs) if float(self._found[id(optimizer)]) == 0 else None

    def update(self) -> None:
        """The scale of the next step."""
        if not self._enabled:
            return
        if not self._found:
            raise RuntimeError("update found no gradients that were looked at; call step first.")
        if any(float(found) for found in self._found.values()):
            self._scale, self._growth_tracker = self._scale * self.backoff_factor, 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self.growth_interval:
                self._scale, self._growth_tracker = self._scale * self.growth_factor, 0
        self._found.clear()
        self._stepped.clear()

    def state_dict(self) -> dict[str, Any]:
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not self._enabled:
            return
        self._scale, self._growth_tracker = float(state["scale"]), int(state["_growth_tracker"])
        self.growth_factor, self.backoff_factor = state["growth_factor"], state["backoff_factor"]
        self.growth_interval = state["growth_interval"]
