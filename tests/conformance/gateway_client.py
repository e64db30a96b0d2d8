"""jupyter_server's gateway client, pointed at a bridge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import websocket
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.gateway.managers import GatewayKernelClient, GatewayKernelManager

from .bridge import Bridge

SOCKET = "websocket.create_connection"


class AuthorizedKernelClient(GatewayKernelClient):
    """The stock client sends its token with requests but not on its socket, where a bridge requires it."""

    async def start_channels(self, *args: Any, **kwargs: Any) -> None:
        header = GatewayClient.instance().load_connection_args()["headers"]
        with mock.patch(SOCKET, partial(websocket.create_connection, header=header)):
            await super().start_channels(*args, **kwargs)


class BridgeKernelManager(GatewayKernelManager):
    """The stock manager with that client, and the kernel's name where the caller sets it as an attribute."""

    client_class = "tests.conformance.gateway_client.AuthorizedKernelClient"
    client_factory = AuthorizedKernelClient

    # Requested while a kernel takes long to start; the stock manager has it only under another name.
    _async_is_alive = GatewayKernelManager.is_alive

    async def start_kernel(self, **kwargs: Any) -> None:
        await super().start_kernel(**{"kernel_name": self.kernel_name, **kwargs})


@contextmanager
def gateway_client(bridge: Bridge) -> Iterator[None]:
    """The process-wide configuration of the gateway client."""
    GatewayClient.clear_instance()
    GatewayClient.instance(url=bridge.url, auth_token=bridge.token)
    try:
        yield
    finally:
        GatewayClient.clear_instance()
