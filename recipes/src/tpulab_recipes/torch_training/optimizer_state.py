"""Makes an optimizer's state before the first step.

PyTorch creates it during that step. On a lazy device the first step is then a different program from all
later ones, and a large model is compiled twice.
"""

from __future__ import annotations

from typing import Any


def create_optimizer_state(optimizer: Any) -> None:
    """Adam's state is made as it is; for others, takes one step with zero gradients and no weight decay, then
    sets the step counters back to zero.

    No parameter changes. Call it once, before the first real step, with no gradients pending.
    """
    import torch

    if type(optimizer) in (torch.optim.Adam, torch.optim.AdamW) and not optimizer.defaults["amsgrad"]:
        _create_adam_state(optimizer)
        return
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


def settle_parameters(optimizer: Any) -> None:
    """Makes the trained parameters results of a program, with the next step boundary. A torch_xla program can
    reuse the memory of computed values, but not of transferred ones: without this the first step would be a
    different program from all later ones."""
    import torch

    with torch.no_grad():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad and parameter.device.type != "cpu":
                    parameter.mul_(1.0)


def _create_adam_state(optimizer: Any) -> None:
    """Zeros. A step would be a program for them, which takes as long to compile as the real step's update."""
    import torch

    for group in optimizer.param_groups:
        on_device = group["capturable"] or group["fused"]
        for parameter in group["params"]:
            if parameter.requires_grad:
                optimizer.state[parameter] = {
                    "step": torch.zeros((), device=parameter.device if on_device else "cpu"),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
                if parameter.device.type != "cpu":
                    # As `settle_parameters`, by what Adam's step ends with: `addcdiv_` leaves a tensor
                    # without its declared type, which torch_xla counts to a program that sums it.
                    with torch.no_grad():
                        parameter.addcdiv_(torch.zeros_like(parameter), torch.ones_like(parameter))


def share_step_counter(optimizer: Any) -> None:
    """Adam counts the steps of each parameter, and corrects for them. From now on the counters are one value
    in each step, computed once for all: a third of the program of a model with many small layers.

    For optimizers whose parameters all get a gradient at every step. Does nothing where counters are numbers,
    or tensors on the host. Call it once.
    """
    optimizer.register_step_pre_hook(lambda *_: _share(optimizer))


def _share(optimizer: Any) -> None:
    counters = [state for state in optimizer.state.values() if "step" in state]
    first: Any = counters[0]["step"] if counters else 0
    if getattr(first, "device", None) is None or first.device.type == "cpu":
        return
    for state in counters[1:]:
        state["step"] = first.clone()
