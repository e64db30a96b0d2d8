"""`python -m tpulab.slice add | list | remove`: the slices that are offered as kernels. `lead` starts one,
and `check` reports whether this environment can run on its hosts."""

from __future__ import annotations

import argparse
import sys

#: PyTorch's processes have the host CPU as their only device.
_LOCAL_DEVICES = {"jax": 2, "torch": 1}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tpulab.slice", description="A TPU slice as one kernel.")
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("add", help="offer a kernel for a slice; run it on host 0")
    add.add_argument("name")
    where = add.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--host",
        action="append",
        metavar="USER@HOST",
        help="host 1, 2, … in the order of their worker numbers, as ssh reaches them from here",
    )
    where.add_argument(
        "--local", type=int, metavar="N", help="N processes on this machine instead of N hosts"
    )
    add.add_argument(
        "--cpu-devices", type=int, metavar="N", help="XLA:CPU devices of each host (PyTorch: 1), not chips"
    )
    add.add_argument(
        "--framework", choices=("jax", "torch"), help="where the environment has both (default: jax)"
    )
    add.add_argument("--type", default="", help="of the slice, for people: v5e-16")
    add.add_argument("--address", default="", help="at which the other hosts reach this one")
    add.add_argument("--python", default="", help="Python on the other hosts, if it lies elsewhere there")
    add.add_argument(
        "--ssh-option", action="append", default=[], metavar="WORD", help="one more word for ssh"
    )
    add.add_argument(
        "--lost-file", default="", metavar="FILE", help="where to name hosts that could not be reached"
    )
    add.add_argument("--start-timeout", type=float, default=300.0, metavar="SECONDS")
    commands.add_parser("check", help="whether this environment can run on the hosts of a slice")
    commands.add_parser("list", help="the slices that are offered")
    remove = commands.add_parser("remove", help="offer a slice no longer")
    remove.add_argument("name")
    return parser


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["lead"]:
        from tpulab.slice import lead

        lead.main(arguments[1:])
        return 0
    given = _parser().parse_args(arguments)
    from tpulab.slice import frameworks, kernelspecs
    from tpulab.slice.errors import SliceError
    from tpulab.slice.spec import SliceSpec

    try:
        if given.command == "check":
            frameworks.load(frameworks.check())
            return 0
        if given.command == "list":
            for spec in kernelspecs.known():
                sys.stdout.write(f"{spec.name}\t{spec.title}\n")
            return 0
        if given.command == "remove":
            kernelspecs.remove(given.name)
            return 0
        if given.local is not None and given.local < 1:
            raise SliceError("--local needs at least one process.")
        framework = given.framework or frameworks.check()
        spec = SliceSpec(
            name=given.name,
            framework=framework,
            others=tuple(given.host or [""] * (given.local - 1)),
            type=given.type,
            # Processes on one machine would compete for its chips.
            cpu_devices=given.cpu_devices or (_LOCAL_DEVICES[framework] if given.local is not None else 0),
            address=given.address,
            python=given.python,
            ssh_options=tuple(given.ssh_option),
            lost_file=given.lost_file,
            start_timeout_s=given.start_timeout,
        )
        home = kernelspecs.add(spec)
    except SliceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Choose the kernel “{spec.title}”. Its kernelspec is in {home}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
