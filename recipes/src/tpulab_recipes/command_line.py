"""What the command lines of the recipes in PyTorch share: where to run, and an option for each setting."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any, TypeVar

from tpulab_recipes import runtime

Settings = TypeVar("Settings")


def parser_for(recipe: str, description: str, settings: type[Any]) -> argparse.ArgumentParser:
    """A parser with `--backend`, `--platform`, `--spmd`, `--full-size` and one option for each field of
    `settings`."""
    parser = argparse.ArgumentParser(prog=f"python -m tpulab_recipes.{recipe}", description=description)
    parser.add_argument(
        "--backend", help="torch_tpu, torch_xla or cpu (default: what this environment is for)"
    )
    parser.add_argument("--platform", choices=("cpu", "tpu"), help="insist on the processor or on a chip")
    parser.add_argument("--spmd", action="store_true", help="one program over all devices")
    parser.add_argument(
        "--full-size", action="store_true", help="the published sizes instead of the small lesson's"
    )
    for each in fields(settings):
        kind = {"int": int, "float": float}.get(str(each.type), str)
        parser.add_argument(f"--{each.name.replace('_', '-')}", type=kind, help=f"default {each.default!r}")
    return parser


def chosen(options: argparse.Namespace, small: Any, full_size: Any) -> Any:
    """The settings that were given over the small or the full-size ones. Raises ValueError for what makes no
    sense."""
    base = full_size if options.full_size else small
    given = {each.name: getattr(options, each.name) for each in fields(base)}
    return base.but(**{name: value for name, value in given.items() if value is not None})


def backend_for(options: argparse.Namespace) -> runtime.Backend:
    """The backend that the options ask for. Raises DeviceRuntimeError."""
    return runtime.use(options.backend, platform=options.platform, **({"spmd": True} if options.spmd else {}))
