"""The cost of an output to a kernel: the launcher beside the stock one, and every message of both compared.

Usage: python compare.py [--outputs N] [--rounds N] [--json FILE]. Run it in the environment `jax`.

The kernels run the same cells in turns, with one reader each that reads everything. A cell times itself: wall
and CPU time of the kernel's process for each output. The messages of one round are compared frame by
frame; only ids, times and the order of keys in a parent header may differ.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file

#: Module and options.
VARIANTS = {
    "stock": ["ipykernel_launcher"],
    "launcher": ["tpulab.launcher"],
}

CASES = {
    "display_data, 64 B": "for i in range(N): display({'text/plain': text}, raw=True)",
    "display_data, 4 KB": "for i in range(N): display({'text/plain': text * 64}, raw=True)",
    "print, flushed": "for i in range(N): print(text, flush=True)",
    "print": "for i in range(N): print(text)",
}

TIMED = """
import time as _t
from IPython.display import display
text = 'x' * 64
N = {count}
_w, _c = _t.perf_counter(), _t.process_time()
{body}
import sys; sys.stdout.flush()
_w, _c = _t.perf_counter() - _w, _t.process_time() - _c
display({{'text/plain': f'TIMED {{_w / N * 1e6}} {{_c / N * 1e6}}'}}, raw=True)
"""


class Kernel:
    def __init__(self, folder: Path, arguments: list[str]) -> None:
        ring = {"resend_socket": str(folder / "resend.sock")}
        self.file, _ = write_connection_file(str(folder / "c.json"), transport="ipc", ip=str(folder / "z"))
        # As a keeper does it, so that recording is part of the measurement.
        Path(self.file).write_text(json.dumps({**json.loads(Path(self.file).read_text()), **ring}))
        log = (folder / "log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-Xfrozen_modules=off", "-m", *arguments, "-f", self.file],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self.client = BlockingKernelClient(connection_file=self.file)
        self.client.load_connection_file()
        self.client.start_channels()
        while not self._answers():
            assert self.process.poll() is None, (folder / "log").read_text()
        self.frames: list[list[bytes]] = []

    def _answers(self) -> bool:
        """Whether shell answers and iopub is received; both take a moment, on a busy machine a long one."""
        self.client.kernel_info()
        try:
            self.client.get_shell_msg(timeout=5)
            return bool(self.client.get_iopub_msg(timeout=0.5))
        except queue.Empty:
            return False

    def run(self, code: str) -> list[list[bytes]]:
        """Runs a cell and returns its iopub messages, as frames."""
        request = self.client.execute(code)
        frames: list[list[bytes]] = []
        socket = self.client.iopub_channel.socket
        while True:
            message = socket.recv_multipart()
            at = message.index(b"<IDS|MSG>")
            if request.encode() not in message[at + 3]:
                continue
            frames.append(message)
            if b'"idle"' in message[at + 5] and b'"status"' in message[at + 2]:
                break
        while self.client.get_shell_msg(timeout=120)["parent_header"].get("msg_id") != request:
            pass
        return frames

    def close(self) -> None:
        self.client.stop_channels()
        self.process.kill()
        self.process.wait()


def measured(frames: list[list[bytes]]) -> tuple[float, float]:
    for message in reversed(frames):
        at = message.index(b"<IDS|MSG>")
        text = json.loads(message[at + 5]).get("data", {}).get("text/plain", "")
        if "TIMED" in text:
            wall, cpu = text.split("TIMED")[1].split()
            return float(wall), float(cpu)
    raise AssertionError("the cell has not said how long it took")


def comparable(frames: list[list[bytes]]) -> list[Any]:
    """A message without the parts that differ between any two runs. The bytes of the content stay bytes."""
    messages = []
    for message in frames:
        at = message.index(b"<IDS|MSG>")
        header, parent = json.loads(message[at + 2]), json.loads(message[at + 3])
        if b"TIMED" in message[at + 5]:
            continue
        for part in (header, parent):
            for name in ("msg_id", "session", "date", "username"):
                part[name] = type(part.get(name)).__name__
        # The header's own bytes too: the same keys in the same order and the same spaces.
        shape = [len(message), list(header), message[at + 2][:12], sorted(parent)]
        topic = [part.split(b".")[-1] for part in message[:at]]
        messages.append([shape, topic, header, parent, message[at + 4], message[at + 5], message[at + 6 :]])
    return messages


def joined(messages: list[Any]) -> list[Any]:
    """Consecutive text of one stream is one message: a timer of 0.2 s decides where it is cut."""
    result: list[Any] = []
    for message in messages:
        *rest, content, _ = message
        text = json.loads(content) if message[2]["msg_type"] == "stream" else None
        if text and result and result[-1][:-2] == rest and result[-1][-1] == text["name"]:
            result[-1][-2] += text["text"]
        elif text:
            result.append([*rest, text["text"], text["name"]])
        else:
            result.append(message)
    return result


def difference(stock: list[Any], launcher: list[Any]) -> str:
    """Empty when both printed the same; else the losses of the stock kernel (its queue has a high-water
    mark)."""
    stock, launcher = joined(stock), joined(launcher)
    if stock == launcher:
        return ""
    rest = iter(launcher)
    # In order, each of them somewhere in the launcher's: missing ones were dropped.
    if all(any(one == other for other in rest) for one in stock):
        return f"the stock kernel lost {len(launcher) - len(stock)}"
    return "they differ"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--outputs", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, dict[str, dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory(prefix="bl-") as root:
        kernels: dict[str, Kernel] = {}
        try:
            for name, arguments in VARIANTS.items():
                folder = Path(root) / name
                folder.mkdir()
                kernels[name] = Kernel(folder, arguments)
            for case, body in CASES.items():
                results[case] = {}
                output: dict[str, list[Any]] = {}
                figures: dict[str, list[tuple[float, float]]] = {name: [] for name in kernels}
                for number in range(options.rounds + 1):
                    for name, kernel in kernels.items():
                        frames = kernel.run(TIMED.format(count=options.outputs, body=body))
                        if number == 0:
                            output[name] = comparable(frames)  # not measured: the first round warms up
                        else:
                            figures[name].append(measured(frames))
                same = {name: difference(output["stock"], output[name]) for name in ("launcher",)}
                for name, rounds in figures.items():
                    results[case][name] = {
                        "wall_us": round(statistics.median(wall for wall, _ in rounds), 1),
                        "cpu_us": round(statistics.median(cpu for _, cpu in rounds), 1),
                        "messages": len(output[name]),
                    }
                results[case]["same"] = {name: what or "yes" for name, what in same.items()}
        finally:
            for kernel in kernels.values():
                kernel.close()
    print(f"{'case':<20}{'':>10}{'wall us':>10}{'cpu us':>10}{'messages':>10}  same messages")
    for case, row in results.items():
        for name in VARIANTS:
            one = row[name]
            print(
                f"{case:<20}{name:>10}{one['wall_us']:>10}{one['cpu_us']:>10}{one['messages']:>10}"
                f"  {row['same'].get(name, '')}"
            )
    if options.json is not None:
        report = {
            "machine": {"system": platform.platform(), "cpus": os.cpu_count(), "load": os.getloadavg()},
            "outputs": options.outputs,
            "rounds": options.rounds,
            "microseconds per output": results,
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    if any("they differ" in row["same"].values() for row in results.values()):
        sys.exit("The launcher's messages differ from the stock ones.")


if __name__ == "__main__":
    assert threading.current_thread() is threading.main_thread()
    assert zmq.has("ipc")
    main()
