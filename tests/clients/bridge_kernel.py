"""A kernel at the bridge in the form that nbclient uses: its parts of a kernel manager and a client."""

from __future__ import annotations

import asyncio
from queue import Empty
from typing import Any

from .bridge_process import BridgeProcess
from .kernel_connection import KernelConnection
from .v1_frames import Message


class ReceivedChannel:
    """The messages of one Jupyter channel, in the order in which they came."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[Message] = asyncio.Queue()

    def put(self, message: Message) -> None:
        self._arrived.put_nowait(message)

    async def get_msg(self, timeout: float | None = None) -> dict[str, Any]:
        """jupyter_client's name and behaviour: `queue.Empty` when no message came in time."""
        try:
            return (await asyncio.wait_for(self._arrived.get(), timeout)).as_dict()
        except TimeoutError:
            raise Empty from None


class BridgeKernelClient:
    """A client attached to the channels socket of one kernel."""

    def __init__(self, bridge: BridgeProcess, kernel_id: str) -> None:
        self.allow_stdin = False
        self.shell_channel = ReceivedChannel()
        self.iopub_channel = ReceivedChannel()
        self._channels = {"shell": self.shell_channel, "iopub": self.iopub_channel}
        self._connection = KernelConnection(bridge, kernel_id, listener=self._receive)

    async def start_channels(self) -> None:
        await self._connection.open()

    async def stop_channels(self) -> None:
        await self._connection.close()

    async def wait_for_ready(self, timeout: float | None = None) -> None:
        """The bridge answers a request once the kernel can: nothing else needs polling."""
        async with asyncio.timeout(timeout):
            requested = await self.kernel_info()
            while (await self.shell_channel.get_msg())["parent_header"].get("msg_id") != requested:
                pass

    async def is_alive(self) -> bool:
        return self._connection.is_open

    async def kernel_info(self) -> str:
        return await self._connection.send("shell", "kernel_info_request", {})

    async def execute(self, code: str, *, store_history: bool = True, stop_on_error: bool = True) -> str:
        return await self._connection.request_execute(
            code, store_history=store_history, stop_on_error=stop_on_error
        )

    def _receive(self, message: Message) -> None:
        channel = self._channels.get(message.channel)
        if channel:
            channel.put(message)


class BridgeKernelManager:
    """Starts, interrupts and ends a kernel over REST."""

    def __init__(self, bridge: BridgeProcess, kernel_name: str) -> None:
        self._bridge = bridge
        self._kernel_name = kernel_name
        self._kernel_id: str | None = None

    @property
    def has_kernel(self) -> bool:
        return self._kernel_id is not None

    async def start_kernel(self, **_options: object) -> None:
        """Options of a local start (`cwd`, `extra_arguments`) do not apply: the bridge starts the kernel."""
        self._kernel_id = await self._bridge.start_kernel(self._kernel_name)

    def client(self) -> BridgeKernelClient:
        assert self._kernel_id
        return BridgeKernelClient(self._bridge, self._kernel_id)

    async def is_alive(self) -> bool:
        if not self._kernel_id:
            return False
        answer = await self._bridge.rest("GET", f"/api/kernels/{self._kernel_id}")
        return answer.status == 200 and answer.body["execution_state"] != "dead"

    async def interrupt_kernel(self) -> None:
        await self._bridge.rest("POST", f"/api/kernels/{self._kernel_id}/interrupt")

    async def shutdown_kernel(self, now: bool = False) -> None:  # noqa: ARG002  (nbclient gives it)
        """`now` makes no difference: the bridge shuts a kernel down in order and then kills it."""
        answer = await self._bridge.rest("DELETE", f"/api/kernels/{self._kernel_id}")
        assert answer.status == 204, answer
        self._kernel_id = None

    async def cleanup_resources(self) -> None:
        """Nothing is stored on this side."""
