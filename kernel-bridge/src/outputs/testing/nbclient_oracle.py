"""Shows stories as nbclient does: reads a list of stories from a file, prints what their cells show.

A story is a list of messages, each with channel, header, parent, metadata and content. nbclient keeps every
stream message as a separate output; here adjacent ones of one name are joined, as notebooks show them.
"""

# nbformat has no types.
# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionComplete

Message = dict[str, Any]


class SilentKernel:
    """Takes what nbclient's Output widget sends back to the kernel."""

    def __init__(self) -> None:
        self.session = SimpleNamespace(msg=lambda *_args, **_keys: {})
        self.shell_channel = SimpleNamespace(send=lambda _message: None)


def shown(story: list[Message]) -> dict[str, Any]:
    """The outputs of each execution and of each Output widget."""
    headers = [each["header"] for each in story]
    requests = [header["msg_id"] for header in headers if header.get("msg_type") == "execute_request"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell() for _ in requests])
    client = NotebookClient(notebook, record_timing=False)
    client.reset_execution_trackers()
    client.kc = cast(Any, SilentKernel())
    clears = [False] * len(requests)
    for each in story:
        parent = each["parent"].get("msg_id")
        if each["channel"] != "iopub" or parent not in requests:
            continue
        index = requests.index(parent)
        message = {
            "header": each["header"],
            "msg_type": each["header"]["msg_type"],
            "parent_header": each["parent"],
            "metadata": each["metadata"],
            "content": each["content"],
            "buffers": [],
        }
        # nbclient has one flag, because it runs one cell at a time; here cells may be late.
        client.clear_before_next_output = clears[index]
        with contextlib.suppress(CellExecutionComplete):
            client.process_message(message, notebook.cells[index], index)
        clears[index] = client.clear_before_next_output
    nbformat.validate(notebook)
    return {
        "executions": {
            request: joined(cell.outputs) for request, cell in zip(requests, notebook.cells, strict=True)
        },
        "widgets": {comm_id: joined(widget.outputs) for comm_id, widget in client.comm_objects.items()},
    }


def joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Joins adjacent texts of one stream into one output."""
    result: list[dict[str, Any]] = []
    for output in outputs:
        last = result[-1] if result else {"output_type": ""}
        if output["output_type"] == last["output_type"] == "stream" and output["name"] == last["name"]:
            last["text"] += output["text"]
        else:
            result.append(dict(output))
    return result


if __name__ == "__main__":
    stories = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    json.dump([shown(story) for story in stories], sys.stdout)
