"""The journal of a real kernel, read by the bridge's command and by a reader written from docs/journal.md."""

import asyncio
import json
import shutil
import zlib
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ..lesson import CHECKOUT
from .bridge_process import BridgeProcess
from .journal_reader import DamagedJournalError, crc32c, read_journal
from .kernel_connection import KernelConnection

DEADLINE_S = 120

TALK = """
import sys
import zlib
from IPython.display import display
for n in range(50):
    print("line", n, flush=True)
print("to stderr", file=sys.stderr)
display({"text/plain": "shown", "text/html": "<b>ä</b>"}, raw=True, metadata={"number": 12345678901234567890})
1 / 0
"""


async def tpulab_journal(bridge: BridgeProcess, *arguments: str) -> tuple[int, str]:
    node = shutil.which("node")
    assert node
    command = [node, str(CHECKOUT / "kernel-bridge" / "bin" / "tpulab.js"), "journal", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, "--state-dir", str(bridge.state_dir), stdout=PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert process.returncode is not None
    return process.returncode, out.decode()


def types(entries: Sequence[dict[str, Any]]) -> list[str]:
    return [entry["header"]["msg_type"] for entry in entries if "header" in entry]


def journal_of(bridge: BridgeProcess, kernel_id: str) -> Path:
    return bridge.state_dir / "kernels" / kernel_id / "journal"


def test_the_checksums_equal_the_pages_examples() -> None:
    assert zlib.crc32(b"123456789") == 0xCBF43926
    assert crc32c(b"123456789") == 0xE3069283


async def test_a_reader_written_from_the_page_reads_the_same_as_the_command_exports(
    bridge: BridgeProcess, client: KernelConnection
) -> None:
    await client.execute(TALK)
    # A comm with a buffer, from the client: binary parts are in the journal unchanged.
    content = {"comm_id": "none", "data": {"state": 1}}
    requested = await client.send("shell", "comm_msg", content, (bytes(range(256)), b""))
    await client.wait_idle(requested)
    kernel_id = client.kernel_id

    for is_running in (True, False):
        if not is_running:
            assert (await bridge.rest("DELETE", f"/api/kernels/{kernel_id}")).status == 204
        code, exported = await tpulab_journal(bridge, "export", kernel_id)
        assert code == 0
        lines = [json.loads(line) for line in exported.splitlines()]
        read = [record.as_export() for record in read_journal(journal_of(bridge, kernel_id))]
        # The kernel may have sent messages since.
        assert read[: len(lines)] == lines
        assert [entry["seq"] for entry in lines] == list(range(1, len(lines) + 1))
        assert {"execute_request", "stream", "display_data", "error", "execute_reply"} <= set(types(lines))
        shown = next(entry for entry in lines if types([entry]) == ["display_data"])
        assert shown["content"]["metadata"] == {"number": 12345678901234567890}
        comm = next(entry for entry in lines if types([entry]) == ["comm_msg"])
        assert (comm["fromClient"], len(comm["buffers"])) == (True, 2)
    code, verified = await tpulab_journal(bridge, "verify", kernel_id, "--json")
    assert (code, json.loads(verified)["damaged"]) == (0, 0)


async def test_both_readers_find_the_same_damage(bridge: BridgeProcess, client: KernelConnection) -> None:
    await client.execute("print('x' * 1000)")
    assert (await bridge.rest("DELETE", f"/api/kernels/{client.kernel_id}")).status == 204
    segment = max(journal_of(bridge, client.kernel_id).glob("*.seg"))
    data = bytearray(segment.read_bytes())
    data[data.index(b"x" * 1000) + 500] ^= 1
    segment.write_bytes(data)

    code, verified = await tpulab_journal(bridge, "verify", client.kernel_id, "--json")
    (fault,) = json.loads(verified)["journals"][0]["faults"]
    assert (code, fault["segment"]) == (1, segment.name)
    with pytest.raises(DamagedJournalError, match=f"wrong checksum at {fault['offset']}"):
        list(read_journal(journal_of(bridge, client.kernel_id)))
