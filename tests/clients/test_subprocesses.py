"""A12: programs that a cell has started, when it is interrupted and when its kernel ends."""

import asyncio
import itertools
import os
import signal

import pytest

from .bridge_process import BridgeProcess
from .kernel_connection import KernelConnection, printed

# A unique number of seconds, so that the command identifies the process.
NUMBERS = itertools.count(1_000_000 + os.getpid() * 10)
CELLS = ["!sleep {n}", "!sleep {n} | cat | cat", "import subprocess\nsubprocess.run(['sleep', '{n}'])"]
STUBBORN = """
import subprocess, sys
code = "import signal, time; [signal.signal(s, signal.SIG_IGN) for s in (2, 15)]; time.sleep({stubborn})"
left = subprocess.Popen([sys.executable, "-c", code])
apart = subprocess.Popen(["sleep", "{apart}"], start_new_session=True)
print(apart.pid)
"""


async def runs(number: int) -> bool:
    listing = await asyncio.create_subprocess_exec(
        "ps", "-A", "-ww", "-o", "args=", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await listing.communicate()
    return str(number) in output.decode(errors="replace")


async def until_runs(number: int, wanted: bool) -> None:
    async with asyncio.timeout(60):
        while await runs(number) != wanted:
            await asyncio.sleep(0.1)


async def test_an_interrupt_ends_the_programs_of_its_cell(
    client: KernelConnection, bridge: BridgeProcess
) -> None:
    for cell in CELLS:
        number = next(NUMBERS)
        requested = await client.request_execute(cell.format(n=number))
        await until_runs(number, True)
        await bridge.rest("POST", f"/api/kernels/{client.kernel_id}/interrupt")
        await client.wait_idle(requested)
        await until_runs(number, False)
    assert printed(await client.execute("print('alive')")) == "alive\n"


@pytest.mark.parametrize(("method", "action"), [("POST", "/restart"), ("DELETE", "")])
async def test_the_end_of_a_kernel_leaves_only_processes_in_their_own_session(
    client: KernelConnection, bridge: BridgeProcess, method: str, action: str
) -> None:
    stubborn, apart = next(NUMBERS), next(NUMBERS)
    pid = int(printed(await client.execute(STUBBORN.format(stubborn=stubborn, apart=apart))))
    try:
        await until_runs(stubborn, True)
        await bridge.rest(method, f"/api/kernels/{client.kernel_id}{action}")
        await until_runs(stubborn, False)
        assert await runs(apart)
    finally:
        os.kill(pid, signal.SIGKILL)
