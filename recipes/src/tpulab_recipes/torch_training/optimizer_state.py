"""Makes an optimizer's state before the first step.

PyTorch makes it during that step. On a lazy device the first step is then another program than all later
ones, and a large model is compiled twice.
"""

from __future__ import annotations

from typing import Any


def create_optimizer_state(optimizer: Any) -> None:
    """Takes one step with zero gradients and no weight decay, then sets the step counters back to zero.

    No parameter changes. Call it once, before the first real step, with no gradients pending.
    """
    import torch

    # The rate stays: Adam on a compiled device divides by it.
    decays = [group.get("weight_decay") for group in optimizer.param_groups]
    with torch.no_grad():
        for group in optimizer.param_groups:
            if "weight_decay" in group:
                group["weight_decay"] = 0.0
            for parameter in group["params"]:
                if parameter.requires_grad:
                    parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        for state in optimizer.state.values():
            counter = state.get("step")
            if isinstance(counter, torch.Tensor):
                counter.zero_()
            elif counter is not None:
                state["step"] = 0
    for group, decay in zip(optimizer.param_groups, decays, strict=True):
        if decay is not None:
            group["weight_decay"] = decay
    optimizer.zero_grad(set_to_none=True)


def share_step_counter(optimizer: Any) -> None:
    """Within a traced step, before `optimizer.step()`: Adam counts the steps of each parameter, and corrects
    for them. As one value they are computed once for all, which is a third of the program of a model with
    many small layers.

    For optimizers whose parameters all get a gradient at every step. Does nothing where counters are numbers,
    or tensors on the host.
    """
    counters = [state for state in optimizer.state.values() if "step" in state]
    if not counters or getattr(counters[0]["step"], "device", None) is None:
        return
    first = counters[0]["step"]
    if first.device.type == "cpu":
        return
    for state in counters[1:]:
        state["step"] = first.clone()
