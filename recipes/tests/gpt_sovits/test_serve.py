"""`/tts`: what it takes and refuses, and from whom."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.gpt_sovits.s1 import Sampling
from tpulab_recipes.gpt_sovits.serve import LONGEST_BODY, VoiceServer, wav_bytes
from tpulab_recipes.gpt_sovits.text import sentences

SAID: list[Any] = []


def _say(text: str, sampling: Sampling, speed: float, reference: str, known: str) -> bytes:
    SAID.append((text, sampling, speed, reference, known))
    if text == "bad":
        raise DataError("a sentence that says why.")
    return wav_bytes(2 * np.ones(10, np.float32), 8000)


@pytest.fixture
def server() -> Iterator[VoiceServer]:
    SAID.clear()
    with VoiceServer(0, _say, 100) as made:
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
    assert [("Hello there.", Sampling(top_k=5, max_ids=100), 1.2, "", "")] == SAID
    wanted = {"text": "Again.", "ref_audio_path": "b.wav", "prompt_text": "Hi.", "seed": 3}
    assert _ask(server, "/tts", wanted | {"streaming_mode": False, "text_split_method": "cut5"})[0] == 200
    assert SAID[1] == ("Again.", Sampling(max_ids=100, seed=3), 1.0, "b.wav", "Hi.")


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/tts", None, 400, "text: give 1 to 2000 characters"),
        ("/tts", {"text": "x" * 2001}, 400, "text: give 1 to 2000"),
        ("/tts?text=bad", None, 400, "a sentence that says why."),
        ("/tts?text=a&top_k=many", None, 400, "top_k: 'many' is no number."),
        ("/tts?text=a&text_lang=zh", None, 400, "text_lang: 'zh' is not one of en, auto."),
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
    assert SAID == []
    assert _ask(server, path, Host=f"localhost:{server.server_port}", Origin="http://localhost:1")[0] == 200
    assert _ask(server, "/tts", b"", Content_Length=str(LONGEST_BODY + 1))[0] == 413


def test_texts_are_divided_into_sentences_and_lines() -> None:
    text = "Mr. Smith came. He left!\nWhy? … It cost 3.5 pounds; no more {HH AH0}."
    assert sentences(text) == [
        "Mr. Smith came.",
        "He left!",
        "Why?",
        "It cost 3.5 pounds; no more {HH AH0}.",
    ]
    assert sentences(" ... ") == []
