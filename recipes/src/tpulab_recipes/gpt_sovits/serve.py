"""`serve`: a voice behind `GET` and `POST /tts` of the original's `api_v2`, for programs of this computer."""

from __future__ import annotations

import io
import json
import re
import secrets
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from tpulab_recipes.common.errors import ConfigError, RecipeError
from tpulab_recipes.gpt_sovits.s1 import Sampling
from tpulab_recipes.gpt_sovits.text import language_of

#: Characters of a text, and bytes of a request.
MAX_TEXT, MAX_BODY = 2000, 2**16
#: Maximum characters of an error answer, which repeats the refused value.
MAX_MESSAGE = 500
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: Parameters that are used, with the type of each.
_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "top_k": int,
    "top_p": float,
    "temperature": float,
    "repetition_penalty": float,
    "seed": int,
    "speed_factor": float,
    "batch_size": int,
    "fragment_interval": float,
}
_WORDS = (
    "text",
    "ref_audio_path",
    "prompt_text",
    "text_lang",
    "prompt_lang",
    "text_split_method",
    "streaming_mode",
)
#: Accepted without effect, when they request the default behaviour.
_FIXED, _IDLE = {"media_type": ("wav",)}, ("batch_threshold", "split_bucket", "parallel_infer")
#: Maximum number of pieces spoken at once, and of seconds between two pieces.
MAX_AT_ONCE, MAX_PAUSE_S = 16, 5.0


@dataclass(frozen=True)
class Wanted:
    """The parameters of a request."""

    text: str
    sampling: Sampling
    language: str = "en"
    speed: float = 1.0
    method: str = "cut5"
    batch: int = 1
    pause: float = 0.3
    reference: str = ""
    """Name of another reference; empty: the server's own."""
    known: str = ""
    known_language: str = "en"
    stream: bool = False
    """Send each piece of sound as soon as it is made."""


#: The waves of a text, piece after piece.
Synthesize = Callable[[Wanted], Iterator[np.ndarray]]


def parsed_request(values: Mapping[str, Any], most_ids: int) -> Wanted:
    """Raises `ConfigError` that names an invalid parameter."""
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
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(name, f"{str(values[name])[:40]!r} is no number.") from error
    if numbers.get("seed", 0) < 0:
        numbers["seed"] = secrets.randbits(32)  # api_v2's default, -1: another sound each time.
    text, reference, known, language, known_language, method, stream = (
        str(values.get(name) or "") for name in _WORDS
    )
    if not 0 < len(text.strip()) <= MAX_TEXT:
        raise ConfigError("text", f"give 1 to {MAX_TEXT} characters, not {len(text)}.")
    speed, batch = numbers.pop("speed_factor", 1.0), numbers.pop("batch_size", 1)
    pause = numbers.pop("fragment_interval", 0.3)
    if not (1 <= batch <= MAX_AT_ONCE and 0 <= pause <= MAX_PAUSE_S):
        raise ConfigError(
            "batch_size",
            f"it must be 1 to {MAX_AT_ONCE}, and fragment_interval 0 to {MAX_PAUSE_S:g} s.",
        )
    return Wanted(
        text,
        Sampling(max_ids=most_ids, **numbers),
        language_of(language or "en"),
        speed,
        method or "cut5",
        batch,
        pause,
        reference,
        known,
        language_of(known_language or "en"),
        # The original's modes 1 to 3 differ in how fine they cut; here, a piece is a sentence.
        stream.lower() not in ("", "0", "false"),
    )


class _Handler(BaseHTTPRequestHandler):
    server: VoiceServer
    #: Seconds that a client may take for its request.
    timeout = 30

    def do_GET(self) -> None:
        self._answer(dict(parse_qsl(urlsplit(self.path).query)))

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > MAX_BODY:
            self._refuse(413, f"A request has a Content-Length of at most {MAX_BODY} bytes.")
            return
        body = self.rfile.read(int(length))
        try:
            values = json.loads(body)
        except (ValueError, RecursionError) as error:
            self._refuse(400, f"The request is not JSON: {error}.")
            return
        self._answer(values if isinstance(values, dict) else {})

    def _answer(self, values: dict[str, Any]) -> None:
        host = _host_of(f"//{self.headers.get('Host', '')}")
        origin = _host_of(self.headers.get("Origin") or "http://localhost")
        site = self.headers.get("Sec-Fetch-Site", "none")
        # Pages of other origins cannot make this computer speak, nor reach it under another host name.
        if host not in _LOOPBACK or origin not in _LOOPBACK or site not in ("none", "same-origin"):
            self._refuse(403, "Only programs and pages of this computer are served.")
        elif urlsplit(self.path).path != "/tts":
            self._refuse(404, "There is only /tts.")
        else:
            try:
                wanted, sound = parsed_request(values, self.server.most_ids), b""
                with self.server.speaking:
                    if not self._has_disconnected():
                        sound = self._speak(wanted)
                if sound:
                    self._send(200, "audio/wav", sound)
            except RecipeError as error:
                self._refuse(400, str(error))
            except Exception as error:
                if not isinstance(error, OSError):
                    self._refuse(500, f"The text could not be spoken ({type(error).__name__}: {error}).")
                raise

    def _speak(self, wanted: Wanted) -> bytes:
        """The sound to send; empty for a stream, which is sent piece by piece. Its first piece is made before
        the answer begins, so that an error is answered as such."""
        waves, rate = self.server.synthesize(wanted), self.server.rate
        first = next(waves)
        if not wanted.stream:
            return wav_bytes(np.concatenate([first, *waves]), rate)
        self.send_response(200)
        self.send_header("Content-Type", "audio/wav")
        # Without a length, the sound lasts until the connection ends.
        self.end_headers()
        self.close_connection = True
        self.wfile.write(endless_header(rate))
        try:
            for wave in chain([first], waves):
                self.wfile.write((wave.clip(-1, 1) * 32767).astype("<i2").tobytes())
        except Exception as error:
            # The answer has begun: it can only end here.
            print(f"/tts ended early: {error}", file=sys.stderr)
        return b""

    def _has_disconnected(self) -> bool:
        """Whether the client has left while others' texts were spoken."""
        self.connection.setblocking(False)
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        finally:
            self.connection.settimeout(self.timeout)

    def _refuse(self, status: int, message: str) -> None:
        self.close_connection = True
        self._send(status, "application/json", json.dumps({"message": message[:MAX_MESSAGE]}).encode())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """The base class calls it for other methods and for invalid HTTP."""
        self._refuse(code, message or explain or self.responses[code][0])

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Requests are not logged: texts are private."""


class VoiceServer(ThreadingHTTPServer):
    """On the loopback address, of which 0 is any free port. One text is spoken at a time."""

    daemon_threads = True

    def handle_error(self, *connection: Any) -> None:
        """A client that disconnects is not an error of the server."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(*connection)

    def __init__(self, port: int, synthesize: Synthesize, most_ids: int, rate: int) -> None:
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError("port", f"{port} cannot be used ({error}).") from error
        self.synthesize, self.most_ids, self.rate = synthesize, most_ids, rate
        self.speaking = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/tts"


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def wav_bytes(wave: Any, rate: int) -> bytes:
    from tpulab_recipes.audio import files

    file = io.BytesIO()
    files.save(file, wave / max(1.0, float(abs(wave).max())), rate)
    return file.getvalue()


def endless_header(rate: int) -> bytes:
    """The header of a 16-bit WAV file of unknown length; players read it to its end."""
    most = 0xFFFFFFFF
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", most, b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16, b"data", most - 36),
    )
