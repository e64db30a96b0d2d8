"""A training that can be watched and steered from the page where `tpulab` is installed, and a plain loop
where not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

Hook = Callable[[], Any]


class Run(Protocol):
    """The part of a run that a training uses."""

    def steps(self, batches: Iterable[Any], total: int) -> Iterator[Any]: ...
    def log(self, **values: Any) -> None: ...
    def hyper(self) -> dict[str, Any]:
        """Every hyperparameter as an array of the host."""
        ...

    def on(self, *, checkpoint: Hook, evaluate: Hook, sample: Hook) -> None: ...


class PlainRun:
    """A run without a page: fixed hyperparameters and no commands. Unused arguments match `Run`."""

    def __init__(self, hyperparameters: Mapping[str, Any]) -> None:
        self.values = dict(hyperparameters)

    def steps(self, batches: Iterable[Any], total: int) -> Iterator[Any]:  # noqa: ARG002
        return iter(batches)

    def log(self, **values: Any) -> None:  # noqa: ARG002
        return

    def hyper(self) -> dict[str, Any]:
        return {name: np.asarray(value, np.float32) for name, value in self.values.items()}

    def on(self, *, checkpoint: Hook, evaluate: Hook, sample: Hook) -> None:  # noqa: ARG002
        return


class SteeredRun:
    """A run of `tpulab`."""

    def __init__(self, run: Any, names: Iterable[str]) -> None:
        self.run, self._names = run, tuple(names)

    def steps(self, batches: Iterable[Any], total: int) -> Iterator[Any]:
        return iter(self.run.steps(batches, total=total))

    def log(self, **values: Any) -> None:
        self.run.log(**values)

    def hyper(self) -> dict[str, Any]:
        return {name: np.asarray(self.run.hyper[name], np.float32) for name in self._names}

    def on(self, *, checkpoint: Hook, evaluate: Hook, sample: Hook) -> None:
        self.run.on_checkpoint(checkpoint)
        self.run.on_evaluate(evaluate)
        self.run.on_sample(sample)


def open_run(
    name: str,
    config: Any,
    hyperparameters: Mapping[str, float],
    ranges: Mapping[str, Mapping[str, Any]],
    **options: Any,
) -> Run:
    """A run that the page steers; without `tpulab` a plain one.

    Args:
        ranges: of each hyperparameter, arguments of `tpulab.hyper`.
        options: arguments of `tpulab.run`.
    """
    try:
        import tpulab
    except ImportError:
        return PlainRun(hyperparameters)
    knobs = {each: tpulab.hyper(value, **ranges[each]) for each, value in hyperparameters.items()}
    return SteeredRun(tpulab.run(name, config, hyperparameters=knobs, **options), hyperparameters)


def around(rate: float) -> dict[str, Any]:
    """The range of a learning rate."""
    return {"min": rate / 100, "max": rate * 10, "scale": "log"}
