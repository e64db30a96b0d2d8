"""Polite fetching of images: few requests at a time to any one host, bounded in size and time."""

from __future__ import annotations

import http.client
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass

from tpulab_recipes.images.shards import SkippedImage

USER_AGENT = "tpulab-recipes/0.1 (image data set download; respects X-Robots-Tag)"
#: Directives by which a server forbids this use of its images (img2dataset honours the same).
DISALLOWED = {"noai", "noimageai", "noindex", "noimageindex"}


@dataclass(frozen=True)
class FetchLimits:
    """Limits for one image."""

    timeout_s: float = 10.0
    max_bytes: int = 32 << 20
    retries: int = 2
    per_host: int = 4
    #: Longest wait that a server's Retry-After may request.
    max_wait_s: float = 5.0


#: Reasons that a later attempt does not change.
_FINAL = {
    "not_http",
    "not_an_image",
    "too_small",
    "too_large",
    "disallowed",
    *(f"http_{code}" for code in (400, 401, 403, 404, 405, 406, 410, 414, 415, 451)),
}


def may_pass(reason: str) -> bool:
    """Whether an image that failed for this reason is requested again by the next download."""
    return reason not in _FINAL


class Fetcher:
    """Fetches one address at a time for each thread that asks."""

    def __init__(self, limits: FetchLimits) -> None:
        self._limits = limits
        self._hosts: dict[str, threading.Semaphore] = {}
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Requests that wait are abandoned."""
        self._stopped.set()

    def get(self, url: str) -> bytes:
        """The image. Raises `SkippedImage`."""
        limits = self._limits
        try:
            parts = urllib.parse.urlsplit(url)
        except ValueError as error:
            raise SkippedImage("not_http") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SkippedImage("not_http")
        # `setdefault` is atomic: all threads get the same semaphore.
        gate = self._hosts.setdefault(parts.hostname, threading.Semaphore(limits.per_host))
        problem, pause = "unknown", 0.0
        for attempt in range(limits.retries + 1):
            if attempt:
                self._stopped.wait(min(max(pause, 0.1 * 2**attempt), limits.max_wait_s))
            try:
                with gate:
                    if self._stopped.is_set():
                        raise SkippedImage("stopped")
                    return self._read(url)
            except urllib.error.HTTPError as error:
                problem, pause = f"http_{error.code}", _retry_after(error)
                error.close()
                if error.code not in (429, 500, 502, 503, 504):
                    break
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem, pause = type(error).__name__, 0.0
        raise SkippedImage(problem)

    def _read(self, url: str) -> bytes:
        request = urllib.request.Request(url, headers={"User-Agent": USER_AGENT})
        deadline = time.monotonic() + 3 * self._limits.timeout_s
        with urllib.request.urlopen(request, timeout=self._limits.timeout_s) as answer:
            directives = ",".join(answer.headers.get_all("X-Robots-Tag") or [])
            if {word.strip().lower() for word in directives.replace(":", ",").split(",")} & DISALLOWED:
                raise SkippedImage("disallowed")
            pieces, size = [], 0
            while piece := answer.read(1 << 16):
                size += len(piece)
                if size > self._limits.max_bytes:
                    raise SkippedImage("too_large")
                if time.monotonic() > deadline:
                    raise TimeoutError
                pieces.append(piece)
            promised = answer.headers.get("Content-Length")
            if promised is not None and promised.isdigit() and size < int(promised):
                raise ConnectionError("the answer was cut off")
            return b"".join(pieces)


def _retry_after(error: urllib.error.HTTPError) -> float:
    try:
        return max(0.0, float(error.headers.get("Retry-After") or 0))
    except ValueError:
        return 0.0
