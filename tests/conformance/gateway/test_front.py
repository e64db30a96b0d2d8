"""The usual operations on a stock jupyter_server whose kernels run at the bridge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..bridge import Bridge
from .front import Front, FrontKernel, Message, wait_for


@pytest.fixture
def kernel_id(front: Front) -> Iterator[str]:
    body = {"path": "a.ipynb", "type": "notebook", "name": "", "kernel": {"name": "python3"}}
    session = front.rest("POST", "/api/sessions", body)
    yield session["kernel"]["id"]
    front.rest("DELETE", f"/api/sessions/{session['id']}")


@pytest.fixture
def kernel(front: Front, kernel_id: str) -> Iterator[FrontKernel]:
    with front.connect(kernel_id) as connection:
        yield connection


def printed(outputs: list[Message]) -> str:
    return "".join(
        message["content"]["text"] for message in outputs if message["header"]["msg_type"] == "stream"
    )


def test_its_kernelspecs_match_the_bridge(front: Front, bridge: Bridge) -> None:
    shown = front.rest("GET", "/api/kernelspecs")
    known = bridge.rest("GET", "/api/kernelspecs")
    assert shown["default"] == known["default"] == "python3"
    assert set(shown["kernelspecs"]) == set(known["kernelspecs"])
    assert {"python3", "bash"} <= set(known["kernelspecs"])


def test_a_cell_runs_and_its_output_arrives(kernel: FrontKernel) -> None:
    reply, outputs = kernel.result(kernel.execute("for i in range(3): print('line', i)\n6 * 7"))
    assert reply["status"] == "ok"
    assert printed(outputs) == "line 0\nline 1\nline 2\n"
    assert outputs[-1]["content"]["data"]["text/plain"] == "42"


def test_the_user_is_prompted_and_the_input_returns(kernel: FrontKernel) -> None:
    request = kernel.execute("print('hello', input('name? '))", allow_stdin=True)
    question, _ = kernel.until("input_request", request)
    assert question["content"]["prompt"] == "name? "
    kernel.send("stdin", "input_reply", {"value": "Ada"}, question["header"])
    reply, outputs = kernel.result(request)
    assert reply["status"] == "ok"
    assert printed(outputs) == "hello Ada\n"


def test_a_busy_cell_is_interrupted(front: Front, kernel: FrontKernel, kernel_id: str) -> None:
    request = kernel.execute("import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.1)")
    kernel.until("stream", request)
    front.rest("POST", f"/api/kernels/{kernel_id}/interrupt")
    reply, _ = kernel.result(request)
    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")


def test_a_restarted_kernel_has_forgotten_everything(
    front: Front, kernel: FrontKernel, kernel_id: str
) -> None:
    kernel.result(kernel.execute("kept = 1"))
    front.rest("POST", f"/api/kernels/{kernel_id}/restart")
    reply, outputs = kernel.result(kernel.execute("print('kept' in dir())"))
    assert printed(outputs) == "False\n"
    assert reply["execution_count"] == 1


def test_comms_go_both_ways(kernel: FrontKernel) -> None:
    code = (
        "def target(comm, opened):\n"
        "    comm.on_msg(lambda message: comm.send({'echo': message['content']['data']}))\n"
        "get_ipython().kernel.comm_manager.register_target('echo', target)"
    )
    assert kernel.result(kernel.execute(code))[0]["status"] == "ok"
    kernel.send("shell", "comm_open", {"comm_id": "c1", "target_name": "echo", "data": {}})
    sent = kernel.send("shell", "comm_msg", {"comm_id": "c1", "data": {"value": [1, "zwei", None]}})
    answer, _ = kernel.until("comm_msg", sent)
    assert answer["content"]["data"] == {"echo": {"value": [1, "zwei", None]}}


def test_everything_that_a_cell_prints_arrives_in_order(kernel: FrontKernel) -> None:
    reply, outputs = kernel.result(kernel.execute("for i in range(20000): print(i)"))
    assert reply["status"] == "ok"
    assert printed(outputs).split() == [str(i) for i in range(20000)]


def test_a_deleted_session_ends_the_kernel_at_the_bridge(front: Front, bridge: Bridge) -> None:
    body = {"path": "b.ipynb", "type": "notebook", "name": "", "kernel": {"name": "bash"}}
    session = front.rest("POST", "/api/sessions", body)
    kernel_id = session["kernel"]["id"]
    with front.connect(kernel_id) as kernel:
        _, outputs = kernel.result(kernel.execute("echo $((6 * 7))"))
        assert printed(outputs).strip() == "42"
    assert kernel_id in [one["id"] for one in bridge.rest("GET", "/api/kernels")]
    front.rest("DELETE", f"/api/sessions/{session['id']}")
    wait_for(
        "The end of the kernel",
        lambda: kernel_id not in [one["id"] for one in bridge.rest("GET", "/api/kernels")],
    )
