"""The messages that a client of a kernel receives on its channels socket."""

import asyncio
import json
import uuid
from itertools import groupby

from websockets.asyncio.client import connect

from .bridge_process import BridgeProcess
from .kernel_connection import REPLY_DEADLINE_S, KernelConnection, printed


async def test_a_cell_answers_with_its_outputs_in_order(client: KernelConnection) -> None:
    answers = await client.execute("print('first'); display('second'); 3")
    # The text may arrive in pieces: the kernel flushes by the clock too.
    types = [kind for kind, _ in groupby(m.msg_type for m in answers if m.channel == "iopub")]
    assert types == ["status", "execute_input", "stream", "display_data", "execute_result", "status"]
    assert printed(answers) == "first\n"
    (reply,) = [m for m in answers if m.channel == "shell"]
    assert reply.content["status"] == "ok"
    (result,) = [m for m in answers if m.msg_type == "execute_result"]
    assert result.content["data"] == {"text/plain": "3"}


async def test_the_kernel_is_our_launcher_with_eight_devices_and_none_of_our_secrets(
    client: KernelConnection, bridge: BridgeProcess
) -> None:
    code = """
import os, sys
import jax
print("tpulab.launcher" in " ".join(sys.orig_argv), jax.device_count())
secrets = ("TPULAB_TOKEN", "JUPYTER_TOKEN")
print([name for name, value in os.environ.items() if "%s" in value or name in secrets])
"""
    assert printed(await client.execute(code % bridge.token)) == "True 8\n[]\n"


async def test_an_error_ends_with_a_traceback_and_the_next_cell_runs(client: KernelConnection) -> None:
    answers = await client.execute("1 / 0")
    (error,) = [m for m in answers if m.msg_type == "error"]
    assert error.content["ename"] == "ZeroDivisionError"
    assert printed(await client.execute("print('still here')")) == "still here\n"


async def test_two_clients_share_iopub_but_not_replies(
    client: KernelConnection, bridge: BridgeProcess
) -> None:
    async with KernelConnection(bridge, client.kernel_id) as other:
        # The other client is subscribed once it has received a reply of its own.
        await other.execute("pass")
        requested = await client.request_execute("print('to both')")
        await client.wait_for(lambda m: m.parent_id == requested and m.msg_type == "execute_reply")
        await client.wait_idle(requested)
        await other.wait_idle(requested)
        assert printed(other.answers(requested)) == printed(client.answers(requested)) == "to both\n"
        assert [m for m in other.answers(requested) if m.channel != "iopub"] == []


async def test_input_is_requested_from_the_client_that_ran_the_cell(
    client: KernelConnection, bridge: BridgeProcess
) -> None:
    async with KernelConnection(bridge, client.kernel_id) as other:
        await other.execute("pass")
        requested = await client.request_execute("print('Hello', input('name? '))", allow_stdin=True)
        question = await client.wait_for(lambda m: m.msg_type == "input_request")
        assert (question.channel, question.content["prompt"]) == ("stdin", "name? ")
        await client.send("stdin", "input_reply", {"value": "Ada", "status": "ok"})
        await client.wait_idle(requested)
        assert printed(client.answers(requested)) == "Hello Ada\n"
        await other.wait_idle(requested)
        assert [m for m in other.messages if m.channel == "stdin"] == []


async def test_binary_buffers_come_back_byte_for_byte(client: KernelConnection) -> None:
    await client.execute(
        """
from comm import get_comm_manager

def echo(comm, message):
    comm.on_msg(lambda m: comm.send({"length": len(m["buffers"])}, buffers=m["buffers"][::-1]))

get_comm_manager().register_target("echo", echo)
"""
    )
    comm_id = uuid.uuid4().hex
    await client.send("shell", "comm_open", {"comm_id": comm_id, "target_name": "echo", "data": {}})
    buffers = (bytes(range(256)), b"", b"\x00" * 100_000)
    await client.send("shell", "comm_msg", {"comm_id": comm_id, "data": {}}, buffers)
    answer = await client.wait_for(lambda m: m.msg_type == "comm_msg" and m.content["comm_id"] == comm_id)
    assert answer.content["data"] == {"length": 3}
    assert answer.buffers == buffers[::-1]


async def test_an_interrupt_stops_a_running_cell(client: KernelConnection, bridge: BridgeProcess) -> None:
    requested = await client.request_execute(
        "import time\nprint('started', flush=True)\nwhile True: time.sleep(0.01)"
    )
    await client.wait_for(lambda m: m.parent_id == requested and m.msg_type == "stream")
    assert (await bridge.rest("POST", f"/api/kernels/{client.kernel_id}/interrupt")).status == 204
    reply = await client.wait_for(lambda m: m.parent_id == requested and m.msg_type == "execute_reply")
    assert reply.content["ename"] == "KeyboardInterrupt"


async def test_a_restart_keeps_the_id_and_forgets_the_variables(
    client: KernelConnection, bridge: BridgeProcess
) -> None:
    await client.execute("kept = 1")
    answer = await bridge.rest("POST", f"/api/kernels/{client.kernel_id}/restart")
    assert (answer.status, answer.body["id"]) == (200, client.kernel_id)
    assert printed(await client.execute("print('kept' in globals())")) == "False\n"


async def test_a_client_without_the_subprotocol_gets_json_text(bridge: BridgeProcess) -> None:
    kernel_id = await bridge.start_kernel()
    address = bridge.url.replace("http", "ws", 1) + f"/api/kernels/{kernel_id}/channels?token={bridge.token}"
    async with connect(address, max_size=None, open_timeout=REPLY_DEADLINE_S) as socket:
        assert socket.subprotocol is None
        header = {
            "msg_id": "q1",
            "msg_type": "kernel_info_request",
            "session": "s",
            "username": "",
            "version": "5.4",
        }
        request = {"channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": {}}
        await socket.send(json.dumps(request))
        async with asyncio.timeout(REPLY_DEADLINE_S):
            async for text in socket:
                assert isinstance(text, str)
                answer = json.loads(text)
                if answer["channel"] == "shell":
                    break
        assert answer["msg_type"] == answer["header"]["msg_type"] == "kernel_info_reply"
        assert answer["parent_header"]["msg_id"] == "q1"
