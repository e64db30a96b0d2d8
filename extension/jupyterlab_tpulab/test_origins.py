"""The origins that the bridge is configured to accept."""

from __future__ import annotations

from .origins import page_origins


def test_both_loopback_names_of_the_port() -> None:
    assert page_origins("http", "127.0.0.1", 8888, "", []) == [
        "http://127.0.0.1:8888",
        "http://localhost:8888",
    ]
    assert page_origins("http", "0.0.0.0", 80, "", []) == ["http://127.0.0.1", "http://localhost"]


def test_the_address_the_displayed_url_and_what_is_configured() -> None:
    origins = page_origins("https", "10.0.0.7", 8888, "https://lab.example/user/a/", ["https://x.example/"])
    assert origins[2:] == ["https://10.0.0.7:8888", "https://lab.example", "https://x.example"]
    assert "http://[::1]:8888" in page_origins("http", "::1", 8888, "", [])


def test_a_server_on_a_unix_socket_has_only_configured_origins() -> None:
    assert page_origins("http", "127.0.0.1", 0, "", ["http://a.example"]) == ["http://a.example"]
