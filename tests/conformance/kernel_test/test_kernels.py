"""jupyter_kernel_test's own tests, on kernels of the bridge, through jupyter_server's gateway client."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import jupyter_kernel_test
from jupyter_client.client import KernelClient
from jupyter_core.utils import run_sync
from jupyter_server.gateway.managers import ChannelQueue

from ..bridge import CHECKOUT, Bridge, stock_kernels
from ..gateway_client import AuthorizedKernelClient, BridgeKernelManager, gateway_client

# The suite gives a message 0.1 s, for a kernel on a machine that does nothing else.
PATIENCE = 600


class PatientQueue(ChannelQueue):
    async def get_msg(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        timeout = kwargs.pop("timeout", None)
        return await super().get_msg(*args, timeout=None if timeout is None else timeout * PATIENCE, **kwargs)


class BlockingClient(AuthorizedKernelClient):
    """The suite's calls on its client, as calls that wait."""

    get_shell_msg = run_sync(KernelClient._async_get_shell_msg)
    get_iopub_msg = run_sync(KernelClient._async_get_iopub_msg)

    async def start_channels(self, *args: Any, **kwargs: Any) -> None:
        await super().start_channels(*args, **kwargs)
        assert self.channel_socket is not None
        assert self._channel_queues is not None
        for name in ("shell", "iopub"):
            queue = PatientQueue(name, self.channel_socket, self.log)
            setattr(self, f"_{name}_channel", queue)
            self._channel_queues[name] = queue


class BlockingManager(BridgeKernelManager):
    client_factory = BlockingClient


class AtBridge(jupyter_kernel_test.KernelTests):
    """Starts the bridge and the kernel; samples that all our Python kernels share."""

    __test__ = False
    _owned: ClassVar[ExitStack]

    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    code_page_something = "zip?"
    code_generate_error = "raise"
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"
    completion_samples: ClassVar = [{"text": "zi", "matches": {"zip"}}]
    complete_code_samples: ClassVar = ["1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n"]
    incomplete_code_samples: ClassVar = ["print('''hello", "def f(x):\n  x*2"]
    invalid_code_samples: ClassVar = ["import = 7q"]
    code_execute_result: ClassVar = [{"code": "1+2+3", "result": "6"}]
    code_display_data: ClassVar = [
        {"code": "from IPython.display import HTML, display; display(HTML('<b>b</b>'))", "mime": "text/html"},
        {
            "code": "from IPython.display import Math, display; display(Math('\\\\frac{1}{2}'))",
            "mime": "text/latex",
        },
    ]
    # Without ranges, see conftest.py.
    supported_history_operations = ("tail", "search")
    code_history_pattern = "1?2*"

    def flush_channels(self) -> None:
        """Up to the end of a separate request; the suite waits until no message has come for a while."""
        request = self.kc.kernel_info()
        for channel, last in ((self.kc.shell_channel, "kernel_info_reply"), (self.kc.iopub_channel, "idle")):
            kind = state = parent = None
            while parent != request or last not in (kind, state):
                message = run_sync(channel.get_msg)(timeout=1)
                kind, state = message["msg_type"], message["content"].get("execution_state")
                parent = message["parent_header"].get("msg_id")

    @classmethod
    def setUpClass(cls) -> None:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
            options = ["--env-dir", str(CHECKOUT / ".tpulab" / "envs")]
            bridge = Bridge(folder, folder, env=stock_kernels(folder / "data"), options=options)
            stack.callback(bridge.close)
            stack.enter_context(gateway_client(bridge))
            cls.km = BlockingManager(kernel_name=cls.kernel_name)  # type: ignore[assignment]
            run_sync(cls.km.start_kernel)()
            cls.kc = cls.km.client()  # type: ignore[assignment]
            run_sync(cls.kc.start_channels)()
            stack.callback(cls.kc.stop_channels)
            cls._owned = stack.pop_all()

    @classmethod
    def tearDownClass(cls) -> None:
        cls._owned.close()


class TestStockKernel(AtBridge):
    """ipykernel as it is installed, without our launcher."""

    __test__ = True
    kernel_name = "python3"


class TestJaxKernel(AtBridge):
    """Our environment with JAX, under our launcher."""

    __test__ = True
    kernel_name = "tpulab-jax"
