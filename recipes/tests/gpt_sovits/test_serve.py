"""`/tts`: what it takes and refuses, and from whom."""

from __future__ import annotations

import http.client
import io
import json
import socket
import threading
import wave
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.gpt_sovits.s1 import Sampling
from tpulab_recipes.gpt_sovits.serve import MAX_BODY, VoiceServer, Wanted

MESSAGES: list[Any] = []


#: Set when the client has the first piece of a stream.
RECEIVED = threading.Event()


def _say(wanted: Wanted) -> Iterator[np.ndarray]:
    MESSAGES.append(wanted)
    if wanted.text == "bad":
        raise DataError("a sentence that says why.")
    if wanted.text == "fault":
        raise IndexError(7)
    yield np.full(8000, 2.0, np.float32)
    if wanted.stream:
        assert RECEIVED.wait(60)
    if wanted.text == "bad later":
        raise DataError("the second piece")
    yield np.full(10, 0.5, np.float32)


@pytest.fixture
def server() -> Iterator[VoiceServer]:
    MESSAGES.clear()
    RECEIVED.clear()
    with VoiceServer(0, _say, 100, 8000) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def _ask(server: VoiceServer, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
    asking = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    asking.request("GET" if body is None else "POST", path, data, named)
    answer = asking.getresponse()
    found = (answer.status, answer.read())
    asking.close()
    return found


def test_a_text_is_spoken_with_the_parameters_of_the_original(server: VoiceServer) -> None:
    status, sound = _ask(
        server, "/tts?text=Hello%20there.&text_lang=en&top_k=5&speed_factor=1.2&media_type=wav"
    )
    assert (status, sound[:4]) == (200, b"RIFF")
    assert [Wanted("Hello there.", Sampling(top_k=5, max_ids=100), speed=1.2)] == MESSAGES
    # Two pieces, of which the first is louder than full scale.
    with wave.open(io.BytesIO(sound)) as file:
        assert (file.getframerate(), file.getnframes()) == (8000, 8010)
    body = {"text": "Again.", "ref_audio_path": "b.wav", "prompt_text": "Hi.", "prompt_lang": "ja", "seed": 3}
    more = {"streaming_mode": False, "text_split_method": "cut1", "batch_size": 2, "fragment_interval": 0.5}
    assert _ask(server, "/tts", body | more | {"text_lang": "ZH"})[0] == 200
    sampling = Sampling(max_ids=100, seed=3)
    assert MESSAGES[1] == Wanted("Again.", sampling, "zh", 1.0, "cut1", 2, 0.5, "b.wav", "Hi.", "ja")


@pytest.mark.parametrize(("text", "samples"), [("good", 8010), ("bad later", 8000)])
def test_a_stream_sends_each_piece_before_the_next_is_made(
    server: VoiceServer, text: str, samples: int, capsys: pytest.CaptureFixture[str]
) -> None:
    asking = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    asking.request("GET", f"/tts?streaming_mode=true&text={text.replace(' ', '%20')}")
    answer = asking.getresponse()
    first = answer.read(44 + 2 * 8000)
    assert not RECEIVED.is_set()
    RECEIVED.set()
    sound = first + answer.read()
    asking.close()
    assert (first[:4], len(sound)) == (b"RIFF", 44 + 2 * samples)
    assert np.frombuffer(sound[44:], "<i2").max() == 32767
    assert ("ended early" in capsys.readouterr().err) == (text == "bad later")


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/tts", None, 400, "text: give 1 to 2000 characters"),
        ("/tts", {"text": "x" * 2001}, 400, "text: give 1 to 2000"),
        ("/tts?text=bad", None, 400, "a sentence that says why."),
        ("/tts?text=a&top_k=many", None, 400, "top_k: 'many' is no number."),
        ("/tts?text=a&text_lang=xx", None, 400, "language: 'xx' is not one of en, zh, ja"),
        ("/tts?text=a&batch_size=99", None, 400, "batch_size: it must be 1 to 16"),
        ("/tts?text=a&media_type=ogg", None, 400, "media_type: 'ogg' is not one of wav."),
        ("/tts?text=a&colour=red", None, 400, "colour: there is no such parameter"),
        ("/tts", b"{", 400, "not JSON"),
        ("/tts", b"\xff", 400, "not JSON"),
        ("/tts", b"[" * 60_000, 400, "not JSON"),
        ("/tts", b'{"text": "a", "top_k": Infinity}', 400, "top_k: 'inf' is no number."),
        ("/tts", b'{"text": "a", "top_k": 1e999}', 400, "top_k: 'inf' is no number."),
        ("/tts?text=a&temperature=nan", None, 400, "temperature: nan is not a number from 0."),
        ("/tts?text=a&repetition_penalty=0", None, 400, "repetition_penalty: 0.0 is not a number from"),
        ("/tts?text=a&text_lang=yue", None, 400, "other languages are spoken from phonemes in braces"),
        ("/tts?text=fault", None, 500, "The text could not be spoken (IndexError: 7)"),
        ("/control?command=exit", None, 404, "only /tts"),
    ],
)
def test_an_invalid_request_is_one_sentence(
    server: VoiceServer, path: str, body: Any, status: int, words: str
) -> None:
    found, answer = _ask(server, path, body)
    assert found == status
    assert words in json.loads(answer)["message"]
    assert len(answer) < 1000


@pytest.mark.parametrize(
    ("request_bytes", "words"),
    [
        (b"PUT /tts HTTP/1.1\r\n\r\n", b"Unsupported method ('PUT')"),
        (
            b"POST /tts HTTP/1.1\r\nHost: localhost\r\nContent-Length: \xb2\r\n\r\n",
            b"Content-Length of at most",
        ),
        (b"GET /tts?text=a HTTP/1.1\r\nHost: [\r\n\r\n", b"Only programs and pages of this computer"),
        (
            b"GET /tts?text=a HTTP/1.1\r\nHost: localhost\r\nOrigin: http://[\r\n\r\n",
            b"Only programs and pages",
        ),
        (b'POST /tts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"te', b"not JSON"),
        (b"\x16\x03\x01\x02 \x01\r\n\r\n", b"Bad HTTP"),
    ],
)
def test_every_torn_or_odd_request_has_an_answer(
    server: VoiceServer, request_bytes: bytes, words: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as client:
        client.sendall(request_bytes)
        client.shutdown(socket.SHUT_WR)
        assert words in client.makefile("rb").read()
    assert MESSAGES == []


def test_nothing_is_spoken_for_a_client_that_left(
    server: VoiceServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """Three wait for their turn, and two of them leave."""
    with server.speaking:
        clients = [socket.create_connection(("127.0.0.1", server.server_port), timeout=60) for _ in range(3)]
        for number, client in enumerate(clients):
            client.sendall(f"GET /tts?text=number{number} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        for client in clients[:2]:
            client.close()
    assert b"RIFF" in clients[2].makefile("rb").read()
    clients[2].close()
    assert _ask(server, "/tts?text=last")[0] == 200
    assert [wanted.text for wanted in MESSAGES] == ["number2", "last"]
    assert capfd.readouterr().err == ""


def test_a_seed_of_minus_one_is_different_each_time(server: VoiceServer) -> None:
    for _ in range(2):
        assert _ask(server, "/tts?text=a&seed=-1")[0] == 200
    seeds = [wanted.sampling.seed for wanted in MESSAGES]
    assert min(seeds) >= 0
    assert seeds[0] != seeds[1]


def test_pages_of_other_sites_and_large_requests_are_refused(server: VoiceServer) -> None:
    path = "/tts?text=a"
    assert _ask(server, path, Host="evil.example")[0] == 403
    assert _ask(server, path, Origin="https://evil.example")[0] == 403
    assert _ask(server, path, Sec_Fetch_Site="cross-site")[0] == 403
    assert MESSAGES == []
    assert _ask(server, path, Host=f"localhost:{server.server_port}", Origin="http://localhost:1")[0] == 200
    assert _ask(server, "/tts", b"", Content_Length=str(MAX_BODY + 1))[0] == 413
