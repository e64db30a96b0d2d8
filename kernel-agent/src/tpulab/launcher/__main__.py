"""Starts an IPython kernel for TPULab: `python -m tpulab.launcher -f CONNECTION_FILE`.

Takes the arguments of `ipykernel_launcher`. Nine things differ: compiled programs are kept for the next
kernel (`compile.cache_folder`), programs compiled ahead are loaded (`check.saved`), iopub does not drop
messages when its reader stalls (`lossless_iopub`), messages without a record yet can be sent again
(`recorded_kernel`), messages are UTF-8, crashes are in the log, cells that await can be interrupted
(`kernel_io`), tracebacks of deep recursion are short (`short_tracebacks`), cells install packages into the
kernel's own environment (`own_packages`), and the agent is loaded (`agent`). The agent is a convenience: if
it cannot start, one line is logged and the kernel runs without it. A kernel that would lose output, on the
other hand, must not start.
"""

from __future__ import annotations

import os
import sys


def drop_working_directory(path: list[str]) -> None:
    """Removes the working directory, which `-m` puts first, while modules are loaded.

    A file `random.py` beside a notebook would otherwise break the start. IPython restores '' for the user's
    code.
    """
    if path and path[0] in ("", os.getcwd(), os.path.realpath(os.getcwd())):
        del path[0]


def take_compiled_programs() -> None:
    """jax takes the programs that `tpulab check --save-compiled` has put into the working directory."""
    from tpulab.compile.cache_folder import COMPILED_AHEAD

    if os.path.isdir(COMPILED_AHEAD):
        from tpulab.check.saved import load_with_jax

        load_with_jax()


def main() -> None:
    drop_working_directory(sys.path)

    from tpulab.compile.cache_folder import keep_compiled_programs

    keep_compiled_programs()

    from tornado.ioloop import IOLoop

    from tpulab.launcher.kernel_io import (
        end_with_exit,
        flush_without_errors,
        restore_streams,
        wake_on_signals,
    )
    from tpulab.launcher.own_packages import use_own_environment
    from tpulab.launcher.recorded_kernel import RecordedKernelApp
    from tpulab.launcher.short_tracebacks import shorten_tracebacks

    class TpulabKernelApp(RecordedKernelApp):
        def initialize(self, argv: list[str] | None = None) -> None:
            super().initialize(argv)
            shorten_tracebacks(self.shell)
            use_own_environment(self.shell)
            end_with_exit(self.shell)
            try:
                from tpulab.agent.process_agent import start_in_kernel

                start_in_kernel(self.shell)
                take_compiled_programs()
            except Exception as error:
                self.log.warning("tpulab: the agent did not start; the kernel runs without it: %r", error)

        def start(self) -> None:
            flush_without_errors()
            restore_streams(self.kernel)
            wake_on_signals(IOLoop.current())
            super().start()

    TpulabKernelApp.launch_instance()


if __name__ == "__main__":
    main()
