"""The server extension: settings, the lifetime of the bridge, and the route that returns its address."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, List, Unicode

from .command import find_bridge_command
from .gateway_proxy import PROXY_PATH, proxy_handler
from .handler import BridgeAddressHandler
from .node_command import with_tools
from .origins import page_origins
from .state import find_state_dir
from .supervisor import BridgeStatus, BridgeSupervisor, SupervisorSettings

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp


class TPULab(ExtensionApp):
    """Starts the TPULab kernel bridge with the Jupyter server, or attaches to a running one."""

    name = "jupyterlab_tpulab"

    bridge_command = List(
        Unicode(),
        help="Command of the kernel bridge, as a list of words. Default: $TPULAB_BRIDGE_COMMAND "
        "(a JSON list), the bundled bridge, or `tpulab` on PATH.",
    ).tag(config=True)

    bridge_arguments = List(
        Unicode(), help="Further arguments of `tpulab serve`, for example --env-dir."
    ).tag(config=True)

    state_dir = Unicode(
        "",
        help="State folder of the bridge. Default: $TPULAB_STATE_DIR, $XDG_STATE_HOME/tpulab or "
        "~/.local/state/tpulab.",
    ).tag(config=True)

    allow_origins = List(
        Unicode(),
        help="Further origins, such as http://lab.example:8888, whose pages the bridge accepts. "
        "The loopback names of this server are always accepted.",
    ).tag(config=True)

    keep_kernels = Bool(
        False,
        help="Leave the bridge's kernels running when this server stops; the next one finds them again.",
    ).tag(config=True)

    supervisor: BridgeSupervisor | None = None

    def bridge_status(self) -> BridgeStatus:
        if self.supervisor is None:
            return BridgeStatus("starting", message="The kernel bridge is starting.")
        return self.supervisor.status

    def initialize_handlers(self) -> None:
        handler = proxy_handler()
        self.handlers.append(
            (
                r"/tpulab/bridge",
                BridgeAddressHandler,
                {"status": self.bridge_status, "proxy": None if handler is None else PROXY_PATH},
            )
        )
        if handler is not None:
            self.handlers.append((rf"/{PROXY_PATH}(.*)", handler, {"status": self.bridge_status}))

    async def _start_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        """Called when the server listens, so its port is known. Returns immediately."""
        self.supervisor = BridgeSupervisor(
            SupervisorSettings(
                command=partial(find_bridge_command, self.bridge_command, os.environ),
                state_dir=find_state_dir(self.state_dir, os.environ),
                root_dir=Path(serverapp.root_dir).absolute(),
                origins=page_origins(
                    "https" if serverapp.certfile else "http",
                    serverapp.ip,
                    serverapp.port,
                    serverapp.custom_display_url,
                    self.allow_origins,
                ),
                environ=with_tools(os.environ),
                extra_arguments=self.bridge_arguments,
            ),
            self.log,
        )
        self.supervisor.start()

    async def stop_extension(self) -> None:
        if self.supervisor is not None:
            await self.supervisor.stop(self.keep_kernels)
