"""Which clients may use the bridge."""

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from .bridge_process import BridgeProcess
from .kernel_connection import REPLY_DEADLINE_S


@pytest.mark.parametrize("path", ["/api/kernels", "/api/kernelspecs", "/api/sessions", "/bridge/v1/health"])
async def test_a_request_without_or_with_a_wrong_token_is_refused(bridge: BridgeProcess, path: str) -> None:
    assert (await bridge.rest("GET", path, authorize=False)).status in (401, 403)
    assert (await bridge.rest("GET", path, token="wrong")).status in (401, 403)
    assert (await bridge.rest("GET", path)).status == 200


async def test_a_socket_without_a_token_is_refused(bridge: BridgeProcess) -> None:
    kernel_id = await bridge.start_kernel()
    address = bridge.url.replace("http", "ws", 1) + f"/api/kernels/{kernel_id}/channels"
    for query in ("", "?token=wrong"):
        with pytest.raises(InvalidStatus) as refused:
            await connect(address + query, open_timeout=REPLY_DEADLINE_S)
        assert refused.value.response.status_code in (401, 403)
    async with connect(f"{address}?token={bridge.token}", open_timeout=REPLY_DEADLINE_S):
        pass


async def test_the_kernelspec_of_the_jax_environment_is_listed(bridge: BridgeProcess) -> None:
    answer = await bridge.rest("GET", "/api/kernelspecs")
    spec = answer.body["kernelspecs"]["tpulab-jax"]["spec"]
    assert spec["display_name"] == "JAX (XLA) on this machine"
    assert spec["language"] == "python"
