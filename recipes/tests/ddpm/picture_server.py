"""A web server on a free port that serves pictures, and misbehaves at some addresses."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tpulab_recipes.ddpm.data.shapes import draw_shapes, to_uint8
from tpulab_recipes.images.files import encode_image

#: Reached only when too few come.
GATHERING_S = 30.0


class PictureServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        drawn = to_uint8(draw_shapes(16, seed=4).images)
        self.pictures = [encode_image(image.repeat(6, axis=0).repeat(8, axis=1), "png") for image in drawn]
        self.requests: Counter[str] = Counter()
        self.agents: set[str] = set()
        self.at_once = self.most_at_once = 0
        #: Requests wait until so many were there together, however slowly they come.
        self.gathers = 1
        self.arrivals = threading.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: PictureServer

    def do_GET(self) -> None:
        server = self.server
        with server.arrivals:
            server.requests[self.path] += 1
            server.agents.add(self.headers["User-Agent"])
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
            server.arrivals.notify_all()
            server.arrivals.wait_for(lambda: server.most_at_once >= server.gathers, GATHERING_S)
        # Long enough for others to come meanwhile.
        time.sleep(0.01)
        # Before the response: its receiver may send another request before this thread continues.
        with server.arrivals:
            server.at_once -= 1
        self._answer(server)

    def _answer(self, server: PictureServer) -> None:
        kind, _, number = self.path.strip("/").partition("-")
        picture = server.pictures[int(number or 0) % len(server.pictures)]
        if kind == "missing":
            self.send_error(404)
        elif kind == "flaky" and server.requests[self.path] == 1:
            self.send_response(503)
            self.send_header("Retry-After", "0.1")
            self.end_headers()
        else:
            body = {"text": b"this is no picture", "huge": b"x" * 300_000}.get(kind, picture)
            self.send_response(200)
            if kind == "private":
                self.send_header("X-Robots-Tag", "noai, noimageai")
            self.send_header("Content-Length", str(len(body) + (50 if kind == "short" else 0)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@contextlib.contextmanager
def serving(port: int = 0) -> Iterator[PictureServer]:
    server = PictureServer(port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
