"""A training step as StableHLO, written by one framework and compiled by another."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from tpulab_recipes.runtime.errors import DeviceRuntimeError

#: `batch`: rows are divided among the devices. `state`: parameters and optimizer state, which the step
#: replaces. `other`: constants and the state of the random numbers.
Role = Literal["batch", "state", "other"]
_FORMAT = 1
_META, _MODULE = "program.json", "step.mlirbc"


@dataclass(frozen=True)
class Value:
    """An argument or a result; `dtype` is NumPy's name, or `bfloat16`."""

    shape: tuple[int, ...]
    dtype: str
    role: Role = "other"


@dataclass(frozen=True)
class StepProgram:
    """`module`: a StableHLO portable artifact whose `main` takes `inputs` and returns `outputs`, in order."""

    name: str
    source: str
    """The framework that wrote it, with its version."""
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    module: bytes

    def save(self, place: Path | str) -> None:
        """Writes one file, whole or not at all."""
        place = Path(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_name(f"{place.name}.writing")
        about = {
            "format": _FORMAT,
            "name": self.name,
            "source": self.source,
            "inputs": [asdict(value) for value in self.inputs],
            "outputs": [asdict(value) for value in self.outputs],
        }
        try:
            with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(_META, json.dumps(about))
                archive.writestr(_MODULE, self.module)
            os.replace(partial, place)
        finally:
            partial.unlink(missing_ok=True)

    @classmethod
    def load(cls, place: Path | str) -> StepProgram:
        """Raises `DeviceRuntimeError` (`bad_program`) for a file that `save` did not write."""
        try:
            with zipfile.ZipFile(place) as archive:
                about, module = json.loads(archive.read(_META)), archive.read(_MODULE)
            if about["format"] != _FORMAT:
                raise ValueError(f"its format is {about['format']}, and this version reads {_FORMAT}")
            inputs, outputs = (
                [Value(tuple(each["shape"]), each["dtype"], each["role"]) for each in about[side]]
                for side in ("inputs", "outputs")
            )
            return cls(about["name"], about["source"], inputs, outputs, module)
        except (OSError, zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
            raise DeviceRuntimeError(
                "bad_program",
                f"{place} is not an exported step ({error}); write one with `--export FILE` of a recipe.",
            ) from error
