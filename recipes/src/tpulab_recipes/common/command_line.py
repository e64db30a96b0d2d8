"""The command lines of the recipes, by tyro: a flag for each setting, with its docstring as help.

A recipe's command is a dataclass that extends `Command` and has its settings as `config`. `--preset` chooses
the settings that the flags then change. The last line of a command is one JSON object with its results.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import re
import select
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TextIO, TypeVar, Union

import tyro

from tpulab_recipes import IS_COMMAND, runtime
from tpulab_recipes.common import interruption
from tpulab_recipes.common.errors import RecipeError
from tpulab_recipes.common.progress import Progress, Silent, Terminal

CommandType = TypeVar("CommandType", bound="Command")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Command:
    """Where to run, and which settings to start from."""

    preset: Literal["small", "full-size"] = "small"
    """The small lesson, or the published size; the other flags change single settings."""
    backend: Literal["torch_tpu", "torch_xla", "cpu"] | None = None
    """Framework that drives the device. None: that of this environment."""
    platform: Literal["cpu", "tpu"] | None = None
    """Require the host CPU or a TPU; the command fails without it. None: whatever is available."""
    spmd: bool = False
    """One program over all devices."""
    given: tyro.conf.SuppressFixed[tyro.conf.Fixed[frozenset[str]]] = frozenset()
    """Names of the flags on the command line."""

    def use_backend(self) -> runtime.Backend:
        """The requested backend; prints its device. Raises `DeviceRuntimeError` when it is not available."""
        backend = self.choose_backend()
        print(backend.describe(), flush=True)
        return backend

    def choose_backend(self) -> runtime.Backend:
        # A step is recorded on the host CPU, whatever device runs here; by torch_xla on request.
        is_export = bool(getattr(self, "export", "") or getattr(self, "step", False))
        installed = "torch_tpu" in runtime.installed_backends()
        if is_export and (self.backend == "torch_tpu" or (self.backend is None and installed)):
            from tpulab_recipes.compile_ahead.torch_export import LoweringBackend

            return LoweringBackend()
        extra = {"spmd": True} if self.spmd else {}
        return runtime.use(self.backend, platform=self.platform, **extra)


@dataclass(frozen=True, kw_only=True)
class WithProgress:
    """A command that shows its progress."""

    quiet: bool = False
    """Show no progress."""

    def progress(self, shown: bool = True) -> Progress:
        return Terminal() if shown and not self.quiet else Silent()

    def run(self) -> None:
        raise NotImplementedError


def read_command(
    command: type[CommandType], recipe: str, presets: Mapping[str, Any], argv: Sequence[str]
) -> CommandType:
    """The command in `argv`, with the settings of its preset where it names none.

    Prints what is wrong, with the nearest flag, and exits with 2 for an invalid flag or value; exits
    with 0 after `--help`.
    """
    requested = preset_argument(argv) or "small"
    # tyro itself refuses an unknown preset.
    name = requested if requested in presets else "small"
    default = with_defaults(command, preset=name, config=presets[name])
    found = parse(command, recipe, argv, default=default)
    return dataclasses.replace(found, given=flags_in(argv))


def read_subcommand(
    commands: Sequence[type[Any]],
    recipe: str,
    about: str,
    presets: Mapping[str, Any],
    argv: Sequence[str],
    *,
    preset: str = "small",
) -> Any:
    """As `read_command`, for a recipe of several commands: `argv` begins with the name of one of them, in
    small letters. `preset` is the default preset."""
    requested = preset_argument(argv) or preset
    name = requested if requested in presets else preset
    found = choose_command(commands, recipe, about, argv, preset=name, config=presets[name])
    return dataclasses.replace(found, given=flags_in(argv))


def choose_command(
    commands: Sequence[type[Any]], recipe: str, about: str, argv: Sequence[str], /, **known: Any
) -> Any:
    """The command that `argv` begins with; `known` are defaults for commands with such a flag."""
    choices = [
        Annotated[
            command,
            tyro.conf.subcommand(_spelled(command.__name__), default=with_defaults(command, **known)),
        ]
        for command in commands
    ]
    return parse(Union[tuple(choices)], recipe, argv, description=about)  # noqa: UP007


#: PyTorch, JAX and NumPy all take these.
_SEEDS = range(2**32)
#: Recipes that check each setting themselves, NaN too, and name its bounds.
_CHECK_NAN = frozenset({"audio", "dia", "gpt_sovits"})


def parse(command: Any, recipe: str, argv: Sequence[str], **how: Any) -> Any:
    """The command in `argv`. Exits with 2 for an invalid value, including a seed that a framework refuses and
    NaN, which a recipe without own checks would accept."""
    found = tyro.cli(command, prog=f"python -m tpulab_recipes.{recipe}", args=argv, **how)
    for flag, value in _values(found):
        if isinstance(value, float) and math.isnan(value) and recipe not in _CHECK_NAN:
            wrong = "must be a number, not nan"
        elif flag.endswith("seed") and isinstance(value, int) and value not in _SEEDS:
            wrong = f"must be from 0 to {_SEEDS[-1]}, not {value}"
        else:
            continue
        print(f"--{flag.replace('_', '-')} {wrong}.", file=sys.stderr)
        raise SystemExit(2)
    return found


def _values(group: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(group):
        value = getattr(group, field.name)
        if dataclasses.is_dataclass(value):
            yield from _values(value)
        for each in value if isinstance(value, tuple | list) else (value,):
            yield field.name, each


def _spelled(name: str) -> str:
    """`train-s1` of `TrainS1`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def exit_status(run: Callable[[], int | None]) -> int:
    """Runs a command; its status, if it returns one. 1: it failed, and one sentence on stderr gives the
    reason. 130: interrupted by Ctrl-C; other signals likewise (`interruption.status`). 141: the reader of its
    output has ended, as in `| head`."""
    try:
        if IS_COMMAND:
            interruption.handle_signals()
        return run() or 0
    except (RecipeError, runtime.DeviceRuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    except BaseException as error:
        if isinstance(error, BrokenPipeError) and _is_unread(sys.stdout):
            return 128 + signal.SIGPIPE
        is_interrupt = isinstance(error, KeyboardInterrupt)
        # A library may have made another error of the interrupt.
        if not is_interrupt and (isinstance(error, SystemExit) or not interruption.requested()):
            raise
        interruption.end_on_signals()
        saved = str(error) if is_interrupt else ""
        print(f"\nInterrupted{saved}; run the same command again to resume.", file=sys.stderr)
        return interruption.status()


def _is_unread(stream: TextIO) -> bool:
    """Whether nobody reads the pipe any more. It then discards what is left, or Python would complain."""
    ends = select.poll()
    ends.register(stream.fileno(), 0)
    if not any(events & select.POLLERR for _, events in ends.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return True


def preset_argument(argv: Sequence[str], *flags: str) -> str | None:
    """The preset that `argv` names, by `--preset` or one of these flags: the defaults of all other flags."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    first.add_argument("--preset", *flags, dest="preset")
    try:
        found: str | None = first.parse_known_args(argv)[0].preset
    except argparse.ArgumentError:
        return None  # Without a value: tyro reports it.
    return found


def with_defaults(command: type[T], **known: Any) -> T:
    """The command with these values, where it has such flags; tyro then requires the flags without a
    default."""
    fields = dataclasses.fields(command)  # type: ignore[arg-type]
    missing = {
        field.name: tyro.MISSING
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    return command(**missing | {field.name: known[field.name] for field in fields if field.name in known})


def flags_in(argv: Sequence[str]) -> frozenset[str]:
    """Names of the settings whose flags stand in `argv`, whatever their values are."""
    names = (word[2:].partition("=")[0].replace("-", "_") for word in argv if word.startswith("--"))
    return frozenset(part for name in names for part in (name, name.removeprefix("no_")))


def flags_over_file(
    config: Any, from_file: Any, preset: Any, given: Collection[str], idle: Collection[str]
) -> Any:
    """The settings: given flags override the file, and the file overrides the preset. Prints which settings
    come from the file and from flags; the file's keys without effect (`idle`) are named on stderr."""
    if idle:
        print(f"without effect here: {', '.join(idle)}", file=sys.stderr)
    names = [field.name for field in dataclasses.fields(config)]
    flags = {name: getattr(config, name) for name in names if name in given}
    changed = [name for name in names if getattr(from_file, name) != getattr(preset, name)]
    read = [name for name in changed if name not in flags]
    print(f"settings of the file: {', '.join(read) or 'none'}; of flags: {', '.join(flags) or 'none'}")
    return dataclasses.replace(from_file, **flags)


def print_result(**values: object) -> None:
    """The last line of a command."""
    print(json.dumps(values), flush=True)


def print_training_result(backend: runtime.Backend, **values: object) -> None:
    """The last line of a training: where it ran, and how much memory of a device it took (null: unknown)."""
    print_result(device=backend.describe(), peak_memory_bytes=backend.peak_memory_bytes(), **values)
