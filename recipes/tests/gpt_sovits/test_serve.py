"""`/tts`: what it takes and refuses, and from whom."""

from __future__ import annotations

import http.client
import io
import json
import threading
import wave
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.gpt_sovits.s1 import Sampling
from tpulab_recipes.gpt_sovits.serve import LONGEST_BODY, VoiceServer, Wanted

MESSAGES: list[Any] = []


#: Set when the client has the first piece of a stream.
RECEIVED = threading.Event()


def _say(wanted: Wanted) -> Iterator[np.ndarray]:
    MESSAGES.append(wanted)
    if wanted.text == "bad":
        raise DataError("a sentence that says why.")
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
        ("/control?command=exit", None, 404, "only /tts"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    server: VoiceServer, path: str, body: Any, status: int, words: str
) -> None:
    found, answer = _ask(server, path, body)
    assert found == status
    assert words in json.loads(answer)["message"]


def test_pages_of_elsewhere_and_large_requests_are_refused(server: VoiceServer) -> None:
    path = "/tts?text=a"
    assert _ask(server, path, Host="evil.example")[0] == 403
    assert _ask(server, path, Origin="https://evil.example")[0] == 403
    assert _ask(server, path, Sec_Fetch_Site="cross-site")[0] == 403
    assert MESSAGES == []
    assert _ask(server, path, Host=f"localhost:{server.server_port}", Origin="http://localhost:1")[0] == 200
    assert _ask(server, "/tts", b"", Content_Length=str(LONGEST_BODY + 1))[0] == 413
