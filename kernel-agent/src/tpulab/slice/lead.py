"""Starts the kernel of a slice: the launcher's lossless kernel, with the lead in place of IPython's."""

from __future__ import annotations

import sys
from pathlib import Path

from tpulab.launcher.__main__ import drop_working_directory


def main(arguments: list[str]) -> None:
    """`SPEC_FILE -f CONNECTION_FILE`, and the other arguments of an IPython kernel."""
    drop_working_directory(sys.path)
    from tpulab.launcher.recorded_kernel import RecordedKernelApp
    from tpulab.slice import frameworks
    from tpulab.slice.errors import SliceError

    try:
        frameworks.check()
    except SliceError as error:
        sys.exit(str(error))
    from tpulab.slice import kernel

    kernel.spec_file = Path(arguments[0])

    class SliceKernelApp(RecordedKernelApp):
        def close(self) -> None:
            # Also when a signal ends the kernel without a shutdown request.
            if isinstance(self.kernel, kernel.SliceKernel):
                self.kernel.close_group()
            super().close()

    SliceKernelApp.launch_instance(argv=arguments[1:], kernel_class=kernel.SliceKernel)
