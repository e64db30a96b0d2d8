"""Starts a script as one process for each device, as `torch.distributed.run` does, of which it takes all
options.

    python -m tpulab_recipes.runtime.torch_launch --nproc-per-node 4 -m tpulab_recipes.dia finetune …

With torch_tpu the processes find each other's chips by variables that must be set before they start, which
`torch.distributed.run` alone does not do.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from tpulab_recipes.runtime.chips import count_chips


def main(argv: Sequence[str]) -> int:
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import get_args_parser, run

    options = get_args_parser().parse_args(argv)
    if find_spec("torch_tpu") is not None and count_chips() > 0:
        from torch.tpu.distributed import set_tpu_launch_env

        hosts, processes = str(options.nnodes), str(options.nproc_per_node)
        try:
            set_tpu_launch_env(
                nnodes=int(hosts) if hosts.isdigit() else None,
                nproc_per_node=int(processes) if processes.isdigit() else None,
            )
        except (RuntimeError, ValueError) as error:
            print(f"The processes cannot be started on the chips of this machine: {error}", file=sys.stderr)
            return 2
    # The processes have printed what was saved, or what failed.
    try:
        run(options)
    except SignalException as error:
        return 128 + int(error.sigval)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        print(f"Process {rank} ended with exit code {failure.exitcode} (-9: out of memory).", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
