"""A run's configuration in each form that people give it: names and plain values, and nothing of the
library's own."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import types
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import ml_collections
import pytest

import tpulab

WIDTH = {"lr": 0.1, "model.width": 3}
MODULE = """
import os
from pathlib import Path
lr = 0.1
model = {"width": 3}
_own = 1
def schedule(): ...
"""


@dataclasses.dataclass
class Data:
    lr: float = 0.1
    model: Any = dataclasses.field(default_factory=lambda: Model())


@attrs.define
class Model:
    width: int = 3


@attrs.define
class Attrs:
    lr: float = 0.1
    model: Model = attrs.field(factory=Model)


class Named(NamedTuple):
    lr: float = 0.1
    model: Model = Model()


class Fields:
    """As a configuration that is only a class; `steps` and `_own` are no settings."""

    lr = 0.1
    _own = 1

    def __init__(self) -> None:
        self.model = argparse.Namespace(width=3)

    @property
    def steps(self) -> int:
        raise ZeroDivisionError


class Resolving(collections.UserDict[str, Any]):
    """As OmegaConf: the stored values are not what a reader gets, and a missing one raises."""

    def __getitem__(self, name: str) -> Any:
        if (value := self.data[name]) == "???":
            raise KeyError(f"{name} is missing")
        return 0.1 if value == "${rate}" else value


def config_dict() -> ml_collections.ConfigDict:
    config = ml_collections.ConfigDict({"rate": 0.05, "model": {"width": 3}})
    config.lr = config.get_ref("rate") * 2
    del config["rate"]
    return config


@pytest.mark.parametrize(
    "config",
    [
        {"lr": 0.1, "model": {"width": 3}},
        config_dict(),
        ml_collections.FrozenConfigDict(config_dict()),
        Resolving(lr="${rate}", model=Resolving(width=3)),
        Data(),
        Attrs(),
        Named(),
        Fields(),
        argparse.Namespace(lr=0.1, model=argparse.Namespace(width=3)),
        types.SimpleNamespace(lr=0.1, model=types.SimpleNamespace(width=3)),
    ],
    ids=lambda config: type(config).__name__,
)
def test_names_and_values_are_those_that_a_reader_of_the_configuration_sees(config: object) -> None:
    assert tpulab.run("configured", config, log=False).config == WIDTH


def test_a_class_and_a_module_have_their_public_values(tmp_path: Path) -> None:
    module = types.ModuleType("settings")
    exec(MODULE, vars(module))
    assert tpulab.run("configured", module, log=False).config == WIDTH
    assert tpulab.run("configured", Fields, log=False).config == {"lr": 0.1}
    assert tpulab.run("configured", {"data": tmp_path}, log=False).config == {"data": str(tmp_path)}


def test_a_missing_value_costs_only_its_own_entry() -> None:
    config = tpulab.run("configured", Resolving(lr="???", seed=1), log=False).config
    assert config == {"lr": "KeyError('lr is missing')", "seed": 1}


@pytest.mark.parametrize(
    ("config", "stored"), [(3, 3), ("config.yaml", "config.yaml"), ([1, 2], "[1, 2]"), ({1, 2}, "{1, 2}")]
)
def test_a_value_without_names_is_stored_as_config(config: object, stored: object) -> None:
    assert tpulab.run("configured", config, log=False).config == {"config": stored}
    assert tpulab.run("configured", None, log=False).config == {}
