"""No output of a kernel is lost when the connection is lost or the gateway ends."""

from .bridge_process import BridgeProcess
from .kernel_connection import KernelConnection, printed

LINES = 400
# Each line is flushed separately, and the cell lasts long enough to be cut in the middle. The file gates the
# second half, so that the cut falls inside the output whatever the speed of the machine.
COUNT = """
import pathlib, time
gate = pathlib.Path({gate!r})
for n in range({lines}):
    print("line", n, flush=True)
    while n == {half} and not gate.exists():
        time.sleep(0.01)
"""
EXPECTED = "".join(f"line {n}\n" for n in range(LINES))


def counting_cell(gate: str) -> str:
    return COUNT.format(gate=gate, lines=LINES, half=LINES // 2)


async def start_counting(client: KernelConnection, gate: str) -> str:
    requested = await client.request_execute(counting_cell(gate))
    await client.wait_for(lambda m: m.parent_id == requested and m.msg_type == "stream")
    return requested


async def test_a_client_that_reconnects_gets_the_rest_of_the_output(
    client: KernelConnection, bridge: BridgeProcess
) -> None:
    gate = bridge.state_dir.parent / "gate"
    requested = await start_counting(client, str(gate))
    client.abort()
    await client.closed()
    gate.touch()

    async with KernelConnection(bridge, client.kernel_id, client.session_id) as again:
        await again.wait_idle(requested)
        await again.wait_for(lambda m: m.parent_id == requested and m.msg_type == "execute_reply")
        assert printed(client.answers(requested) + again.answers(requested)) == EXPECTED


async def test_a_killed_gateway_loses_no_line_of_a_running_cell(
    client: KernelConnection, bridge: BridgeProcess
) -> None:
    gate = bridge.state_dir.parent / "gate"
    requested = await start_counting(client, str(gate))
    await bridge.kill()
    await client.closed()
    gate.touch()
    await bridge.start()

    async with KernelConnection(bridge, client.kernel_id, client.session_id) as again:
        await again.wait_idle(requested)
        await again.wait_for(lambda m: m.parent_id == requested and m.msg_type == "execute_reply")
        assert printed(client.answers(requested) + again.answers(requested)) == EXPECTED
        assert printed(await again.execute("print('alive')")) == "alive\n"


async def test_a_flood_arrives_whole_and_in_order(client: KernelConnection) -> None:
    answers = await client.execute("for n in range(20_000): display({'text/plain': str(n)}, raw=True)")
    numbers = [int(m.content["data"]["text/plain"]) for m in answers if m.msg_type == "display_data"]
    assert numbers == list(range(20_000))
