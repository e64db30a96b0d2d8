"""`serve`: a voice behind `GET` and `POST /tts` of the original's `api_v2`, for programs of this computer."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tpulab_recipes.common.errors import ConfigError, RecipeError
from tpulab_recipes.gpt_sovits.s1 import Sampling

#: Characters of a text, and bytes of a request.
LONGEST_TEXT, LONGEST_BODY = 2000, 2**16
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: Parameters that are used, with the type of each; others of the original are accepted where they ask for
#: what happens anyway.
_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "top_k": int,
    "top_p": float,
    "temperature": float,
    "repetition_penalty": float,
    "seed": int,
    "speed_factor": float,
}
_WORDS = ("text", "ref_audio_path", "prompt_text")
_FIXED = {
    "media_type": ("wav",),
    "text_lang": ("en", "auto"),
    "prompt_lang": ("en", "auto"),
    "streaming_mode": (False, "false", "False", 0, "0"),
}
_IDLE = (
    "text_split_method",
    "batch_size",
    "batch_threshold",
    "split_bucket",
    "parallel_infer",
    "fragment_interval",
)

#: Text, sampling, speed, and name and text of another reference, to the bytes of a WAV file.
Synthesize = Callable[[str, Sampling, float, str, str], bytes]


def parsed_request(values: Mapping[str, Any], most_ids: int) -> tuple[str, Sampling, float, str, str]:
    """What a request asks for. Raises `ConfigError` that names a parameter which cannot be."""
    for name, value in values.items():
        if name in _FIXED and value not in _FIXED[name]:
            raise ConfigError(name, f"{value!r} is not one of {', '.join(map(str, _FIXED[name]))}.")
        if name not in (*_NUMBERS, *_WORDS, *_FIXED, *_IDLE):
            raise ConfigError(
                name, f"there is no such parameter; there are {', '.join((*_WORDS, *_NUMBERS))}."
            )
    numbers: dict[str, Any] = {}
    for name, kind in _NUMBERS.items():
        try:
            if name in values:
                numbers[name] = kind(values[name])
        except (TypeError, ValueError) as error:
            raise ConfigError(name, f"{values[name]!r} is no number.") from error
    text, reference, known = (str(values.get(name) or "") for name in _WORDS)
    if not 0 < len(text.strip()) <= LONGEST_TEXT:
        raise ConfigError("text", f"give 1 to {LONGEST_TEXT} characters, not {len(text)}.")
    speed = numbers.pop("speed_factor", 1.0)
    return text, Sampling(max_ids=most_ids, **numbers), speed, reference, known


class _Handler(BaseHTTPRequestHandler):
    server: VoiceServer
    #: Seconds that a client may take for its request.
    timeout = 30

    def do_GET(self) -> None:
        self._answer(dict(parse_qsl(urlsplit(self.path).query)))

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > LONGEST_BODY:
            self._refuse(413, f"A request has a Content-Length of at most {LONGEST_BODY} bytes.")
            return
        body = self.rfile.read(int(length))
        try:
            values = json.loads(body)
        except ValueError as error:
            self._refuse(400, f"The request is not JSON: {error}.")
            return
        self._answer(values if isinstance(values, dict) else {})

    def _answer(self, values: dict[str, Any]) -> None:
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        origin = urlsplit(self.headers.get("Origin") or "http://localhost").hostname
        site = self.headers.get("Sec-Fetch-Site", "none")
        # A page of elsewhere cannot have this computer speak, nor reach it under another name.
        if host not in _LOOPBACK or origin not in _LOOPBACK or site not in ("none", "same-origin"):
            self._refuse(403, "Only programs and pages of this computer are served.")
        elif urlsplit(self.path).path != "/tts":
            self._refuse(404, "There is only /tts.")
        else:
            try:
                self._send(200, "audio/wav", self.server.speak(values))
            except RecipeError as error:
                self._refuse(400, str(error))

    def _refuse(self, status: int, message: str) -> None:
        self.close_connection = True
        self._send(status, "application/json", json.dumps({"message": message}).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Texts are the user's own matter."""


class VoiceServer(ThreadingHTTPServer):
    """On the loopback address, of which 0 is any free port. One text is spoken at a time."""

    daemon_threads = True

    def __init__(self, port: int, synthesize: Synthesize, most_ids: int) -> None:
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError("port", f"{port} cannot be used ({error}).") from error
        self._synthesize, self._most_ids, self._speaking = synthesize, most_ids, threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/tts"

    def speak(self, values: Mapping[str, Any]) -> bytes:
        wanted = parsed_request(values, self._most_ids)
        with self._speaking:
            return self._synthesize(*wanted)


def wav_bytes(wave: Any, rate: int) -> bytes:
    from tpulab_recipes.audio import files

    file = io.BytesIO()
    files.save(file, wave / max(1.0, float(abs(wave).max())), rate)
    return file.getvalue()
