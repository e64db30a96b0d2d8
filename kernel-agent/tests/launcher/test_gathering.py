"""Outputs cost a kernel less, and are those that ipykernel would send."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import zmq

from kernel_process import LAUNCHER, KernelProcess
from tpulab.launcher.gathering_kernel import GATHER_VARIABLE
from tpulab.launcher.whole_send import find_whole_send, send_whole

#: Two streams have an order only where a display is between them.
MIXED = """
import sys
from IPython.display import display
for n in range(3000):
    if n % 7 == 0: print(n)
    elif n % 11 == 0 and (n + 1) % 7 and (n - 1) % 7: print(n, file=sys.stderr)
    else: display({'text/plain': str(n)}, raw=True)
"""

DISPLAYS = "from IPython.display import display\nimport itertools\n" + (
    "for n in itertools.count(): display({'text/plain': str(n)}, raw=True)"
)


def kernel_with_keeper(folder: Path, *options: str) -> KernelProcess:
    return KernelProcess(
        folder,
        (*LAUNCHER, *options),
        env={GATHER_VARIABLE: "1"},
        resend_socket=folder / "resend.sock",
    )


def outputs(kernel: KernelProcess, request: str) -> list[dict[str, Any]]:
    """Messages on iopub of one request, to its idle status."""
    found = []
    while True:
        message: dict[str, Any] = kernel.client.get_iopub_msg(timeout=120)
        if message["parent_header"].get("msg_id") != request:
            continue
        if message["content"].get("execution_state") == "idle":
            return found
        found.append(message)


def texts(messages: list[dict[str, Any]]) -> list[int]:
    """The numbers that were printed or displayed, in the order in which they came."""
    found: list[int] = []
    for message in messages:
        content = message["content"]
        if message["msg_type"] == "stream":
            found += [int(line) for line in content["text"].split()]
        elif message["msg_type"] == "display_data":
            found.append(int(content["data"]["text/plain"]))
    return found


def test_text_and_displays_come_in_the_order_in_which_they_were_made(short_folder: Path) -> None:
    with kernel_with_keeper(short_folder) as kernel:
        assert texts(outputs(kernel, kernel.client.execute(MIXED))) == list(range(3000))


def test_so_they_do_when_several_threads_make_them(short_folder: Path) -> None:
    code = """
import threading
from IPython.display import display
def work(number):
    for n in range(500):
        if n % 5: display({'text/plain': f'{number}{n:03}'}, raw=True)
        else: print(f'{number}{n:03}\\n', end='', flush=True)
threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    with kernel_with_keeper(short_folder) as kernel:
        found = texts(outputs(kernel, kernel.client.execute(code)))
    for number in range(1, 5):
        assert [n for n in found if n // 1000 == number] == [number * 1000 + n for n in range(500)]


def test_a_cell_is_never_far_ahead_of_the_thread_that_sends(short_folder: Path) -> None:
    code = """
from IPython.display import display
from tpulab.launcher.gathering_iopub import AHEAD
thread = get_ipython().kernel.iopub_thread
most = 0
for n in range(2000):
    display({'text/plain': str(n)}, raw=True)
    most = max(most, len(thread._events))
large = 0
for n in range(20):
    display({'text/plain': 'x' * 1_000_000}, raw=True)
    large = max(large, len(thread._large))
print(type(thread).__name__, most <= AHEAD + 2, large)
"""
    with kernel_with_keeper(short_folder) as kernel:
        assert kernel.run(code) == "GatheringIOPubThread True 1\n"


def test_an_interrupt_in_a_flood_cuts_no_message_and_holds_none_back(short_folder: Path) -> None:
    with kernel_with_keeper(short_folder) as kernel:
        for _ in range(12):
            request = kernel.client.execute(DISPLAYS)
            seen = 0
            while seen < 50:
                message = kernel.client.get_iopub_msg(timeout=120)
                seen += message["msg_type"] == "display_data"
            os.kill(kernel.process.pid, signal.SIGINT)
            rest = outputs(kernel, request)
            assert [one["content"]["ename"] for one in rest if one["msg_type"] == "error"] == [
                "KeyboardInterrupt"
            ]
            numbers = texts(rest)
            assert numbers == list(range(numbers[0] if numbers else 0, (numbers or [-1])[-1] + 1))
        assert kernel.run("print('still there')") == "still there\n"


def test_what_a_forked_child_prints_comes_too(short_folder: Path) -> None:
    code = """
import os
from IPython.display import display
display({'text/plain': '0'}, raw=True)
child = os.fork()
if child == 0:
    print(1, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    with kernel_with_keeper(short_folder) as kernel:
        request = kernel.client.execute(code)
        found: list[int] = []
        # The child hands its text to the kernel by a socket of its own, also after the cell.
        while len(found) < 2:
            message = kernel.client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") == request:
                found += texts([message])
    assert sorted(found) == [0, 1]


@pytest.mark.parametrize("option", ["block", "no keeper", "not asked for"])
def test_elsewhere_a_kernel_flushes_as_ever(option: str, short_folder: Path) -> None:
    kernel = (
        kernel_with_keeper(short_folder, "--LosslessKernelApp.iopub_queue=block")
        if option == "block"
        else KernelProcess(
            short_folder,
            env={GATHER_VARIABLE: "1" if option == "no keeper" else "0"},
            resend_socket=None if option == "no keeper" else short_folder / "resend.sock",
        )
    )
    code = (
        "import sys; shell = get_ipython()\n"
        "print(*(type(one).__name__ for one in (shell.kernel.iopub_thread, sys.stdout, shell.display_pub)))"
    )
    with kernel:
        assert kernel.run(code) == "IOPubThread OutStream ZMQDisplayPublisher\n"


def test_frames_arrive_as_they_were_sent_also_empty_ones_and_zeros(short_folder: Path) -> None:
    whole = find_whole_send()
    assert whole is not None
    frames = [b"topic", b"", b"\x00\x01" * 1000, b"end"]
    with zmq.Context() as context, context.socket(zmq.PUSH) as sender, context.socket(zmq.PULL) as reader:
        sender.bind(f"ipc://{short_folder / 's'}")
        reader.connect(f"ipc://{short_folder / 's'}")
        assert sender.poll(60_000, zmq.POLLOUT)
        send_whole(sender, whole, frames)
        assert reader.poll(60_000)
        assert reader.recv_multipart() == frames


def test_without_room_it_waits_as_pyzmq_does(short_folder: Path) -> None:
    whole = find_whole_send()
    assert whole is not None
    with zmq.Context() as context, context.socket(zmq.PUSH) as sender, context.socket(zmq.PULL) as reader:
        sender.bind(f"ipc://{short_folder / 's'}")
        # Nobody is there yet who could take it.
        assert whole.frames(sender.underlying, [b"a", b"b"]) == 0
        thread = threading.Thread(target=send_whole, args=(sender, whole, [b"a", b"b"]))
        thread.start()
        time.sleep(0.1)
        assert thread.is_alive()
        reader.connect(f"ipc://{short_folder / 's'}")
        thread.join(60)
        assert not thread.is_alive()
        assert reader.recv_multipart() == [b"a", b"b"]


def test_a_closed_socket_is_told_in_pyzmqs_words() -> None:
    whole = find_whole_send()
    assert whole is not None
    with zmq.Context() as context:
        sender = context.socket(zmq.PUSH)
        sender.close()
        with pytest.raises(zmq.ZMQError) as raised:
            send_whole(sender, whole, [b"a"])
        assert raised.value.errno == zmq.ENOTSOCK
