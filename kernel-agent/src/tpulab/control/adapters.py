"""Hyperparameters in third-party optimizers: optax, and torch.

optax: the optimizer's state holds the values, so they are put into it before each step.

    optimizer = optax.inject_hyperparams(optax.adam)(learning_rate=3e-4)
    for batch in run.steps(loader):
        state = tpulab.into_optax(state, run.hyper)

torch: the groups of the optimizer are changed with their hyperparameter.

    run.apply_to(optimizer)                      # its `lr` follows run.hyper.learning_rate
    run.apply_to(optimizer, weight_decay="decay")
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tpulab.control.controller import Controller
from tpulab.control.hyperparameters import HyperparameterError, Hyperparameters

S = TypeVar("S")
_LEARNING_RATES = ("learning_rate", "lr")


class AdapterError(TypeError):
    """The hyperparameters of this kind of optimizer cannot follow a run."""

    code = "ADAPTER"


def follow(controller: Controller, hyper: Hyperparameters, target: Any, names: Mapping[str, str]) -> Any:
    """Makes `target` follow the hyperparameters that a controller changes. Returns it."""
    if hasattr(target, "param_groups"):
        controller.apply_to(_of_torch(hyper, target, names))
        return target
    if callable(target):
        controller.apply_to(target)
        return target
    raise AdapterError(
        f"{type(target).__name__} is neither a torch optimizer nor a function; "
        "for optax see tpulab.into_optax."
    )


def into_optax(state: S, hyper: Hyperparameters, **names: str) -> S:
    """The state of `optax.inject_hyperparams` with the values of a run. Never recompiles.

    Args:
        state: state of the optimizer, or a tree that contains such states.
        hyper: `run.hyper`.
        names: optimizer argument to hyperparameter. Default: those with the same name.

    Raises:
        AdapterError: `state` contains no state of `inject_hyperparams`.
    """
    import jax
    import jax.numpy as jnp

    found = 0

    def is_injected(node: Any) -> bool:
        return hasattr(node, "hyperparams") and hasattr(node, "_replace")

    def replaced(node: Any) -> Any:
        nonlocal found
        if not is_injected(node):
            return node
        found += 1
        values = dict(node.hyperparams)
        for argument, old in values.items():
            name = names.get(argument, argument)
            if name in hyper:
                new = getattr(hyper, str(name))
                # Of the same type and strength, so that the step is not compiled again.
                values[argument] = new if _alike(new, old) else jnp.asarray(new, getattr(old, "dtype", None))
        # Schedules inside a chain are separate states.
        inner = jax.tree_util.tree_map(replaced, node.inner_state, is_leaf=is_injected)
        return node._replace(hyperparams=values, inner_state=inner)

    made: S = jax.tree_util.tree_map(replaced, state, is_leaf=is_injected)
    if not found:
        raise AdapterError(
            "This state has no hyperparameters: create the optimizer with optax.inject_hyperparams(…)."
        )
    return made


def _alike(new: Any, old: Any) -> bool:
    return getattr(new, "dtype", None) == getattr(old, "dtype", 0) and bool(
        getattr(new, "weak_type", False)
    ) == bool(getattr(old, "weak_type", False))


def _of_torch(
    hyper: Hyperparameters, optimizer: Any, names: Mapping[str, str]
) -> Callable[[Hyperparameters], None]:
    chosen = dict(names)
    if not chosen:
        rate = next((name for name in _LEARNING_RATES if name in hyper), None)
        if rate is None:
            raise HyperparameterError(
                'This run has no learning_rate; name it: run.apply_to(optimizer, lr="my_rate").'
            )
        chosen = {"lr": rate}
    for setting, name in chosen.items():
        hyper.check(name, hyper.get(name))
        if any(setting not in group for group in optimizer.param_groups):
            raise HyperparameterError(f"{type(optimizer).__name__} has no setting {setting!r}.")
    # Groups with another value keep their ratio to the first one (layer-wise rates).
    first = optimizer.param_groups[0]
    shares = {
        (number, setting): _ratio(group[setting], first[setting])
        for number, group in enumerate(optimizer.param_groups)
        for setting in chosen
    }
    lazy = _is_lazy(optimizer)
    if lazy:
        _make_capturable(optimizer)

    def apply(values: Hyperparameters) -> None:
        for setting, name in chosen.items():
            for number, group in enumerate(optimizer.param_groups):
                # Only a capturable optimizer computes with the tensor; others read it back each step.
                as_tensor = lazy and "capturable" in group
                _put(group, setting, values, name, shares[number, setting], as_tensor)

    return apply


def _put(group: Any, setting: str, values: Hyperparameters, name: str, share: float, lazy: bool) -> None:
    """A tensor where a number would be a constant of a lazy graph, or where there is one already."""
    old = group[setting]
    torch = sys.modules.get("torch")
    is_tensor = torch is not None and isinstance(old, torch.Tensor)
    if is_tensor and not lazy:
        # In place: `torch.compile` and captured graphs refer to the tensor that they captured.
        old.fill_(float(values[name]) * share)
    elif lazy and setting == "lr":
        array = getattr(values, name)
        group[setting] = array if share == 1.0 else array * share
    else:
        group[setting] = float(values[name]) * share


def _ratio(value: Any, first: Any) -> float:
    try:
        return float(value) / float(first) if float(first) else 1.0
    except (TypeError, ValueError):
        return 1.0


def _is_lazy(optimizer: Any) -> bool:
    return any(
        getattr(getattr(parameter, "device", None), "type", "") == "xla"
        for group in optimizer.param_groups
        for parameter in group["params"]
    )


def _make_capturable(optimizer: Any) -> None:
    """Adam and similar optimizers read a tensor's value back to the host unless they are capturable."""
    for group in optimizer.param_groups:
        if "capturable" in group:
            group["capturable"] = True
