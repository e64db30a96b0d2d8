"""A gateway without kernels, in a separate process: `serve` as `tpulab serve` does it, over real HTTP.

`FAKE_GATEWAY` chooses a way to fail: `exit` (ends with a message), `garbage` (prints no address), `silent`.
"""

from __future__ import annotations

import argparse
import hmac
import json
import os
import secrets
import signal
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from urllib.parse import parse_qs, urlsplit


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--root-dir", type=Path, required=True)
    parser.add_argument("--allow-origin", action="append", default=[])
    options = parser.parse_args()
    token = os.environ["TPULAB_TOKEN"]
    fault = os.environ.get("FAKE_GATEWAY", "")
    if fault == "exit":
        print(f"cannot start with {token}", file=sys.stderr)
        return 3
    if fault == "garbage":
        print("hello", flush=True)
    if fault in ("garbage", "silent"):
        signal.pause()
    options.state_dir.mkdir(parents=True, exist_ok=True)
    proof_key = secrets.token_hex(32)
    server = ThreadingHTTPServer(
        ("127.0.0.1", options.port), handler(token, proof_key, options.allow_origin, options.state_dir)
    )
    url = f"http://127.0.0.1:{server.server_port}/"
    record = {
        "url": url,
        "pid": os.getpid(),
        "gatewayId": uuid.uuid4().hex,
        "startedAt": "now",
        "proofKey": proof_key,
    }
    (options.state_dir / "gateway.json").write_text(json.dumps(record))
    (options.state_dir / "started.log").open("a").write(
        json.dumps(vars(options) | record, default=str) + "\n"
    )

    def stop(_signal: int, _frame: FrameType | None) -> None:
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    print(json.dumps({"url": url, "pid": os.getpid()}), flush=True)
    server.serve_forever(poll_interval=0.05)
    (options.state_dir / "gateway.json").unlink()
    return 0


def handler(token: str, proof_key: str, origins: list[str], state_dir: Path) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_OPTIONS(self) -> None:
            self.answer(204, None)

        def do_GET(self) -> None:
            requested = urlsplit(self.path)
            if requested.path == "/bridge/v1/identity":
                challenge = parse_qs(requested.query)["challenge"][0]
                self.answer(
                    200, {"proof": hmac.new(proof_key.encode(), challenge.encode(), "sha256").hexdigest()}
                )
            elif self.headers.get("Authorization") != f"token {token}":
                self.answer(403, {"message": "Forbidden"})
            elif self.path == "/headers":
                self.answer(200, {name.lower(): value for name, value in self.headers.items()})
            elif self.path == "/bridge/v1/health":
                self.answer(200, {"status": "ok", "protocolVersion": 1, "gatewayId": "fake"})
            else:
                self.answer(200, [{"id": path.name} for path in sorted((state_dir / "kernels").glob("*"))])

        def do_DELETE(self) -> None:
            kernel = state_dir / "kernels" / self.path.rsplit("/", 1)[-1]
            kernel.unlink()
            self.answer(204, None)

        def answer(self, status: int, body: object) -> None:
            self.send_response(status)
            if self.headers.get("Origin") in origins:
                self.send_header("Access-Control-Allow-Origin", self.headers["Origin"])
            # The real gateway sets none: the target of a proxy must not be able to.
            self.send_header("Set-Cookie", "gateway=1")
            payload = b"" if body is None else json.dumps(body).encode()
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: stderr is for failures."""

    return Handler


if __name__ == "__main__":
    sys.exit(main())
