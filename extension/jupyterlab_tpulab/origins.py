"""The origins of a Jupyter server's pages: the bridge accepts these, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "localhost")
ANY_ADDRESS = frozenset({"", "*", "0.0.0.0", "::"})


def page_origins(scheme: str, ip: str, port: int, display_url: str, configured: Iterable[str]) -> list[str]:
    """Both loopback names of the port, the server's own and displayed address, and the configured origins."""
    hosts = [*LOOPBACK]
    if ip not in ANY_ADDRESS and ip not in LOOPBACK:
        hosts.append(f"[{ip}]" if ":" in ip else ip)
    origins = [_origin(scheme, host, port) for host in hosts] if port > 0 else []
    if display_url:
        shown = urlsplit(display_url)
        if shown.scheme and shown.netloc:
            origins.append(f"{shown.scheme}://{shown.netloc}")
    return list(dict.fromkeys([*origins, *(origin.rstrip("/") for origin in configured)]))


def _origin(scheme: str, host: str, port: int) -> str:
    default = {"http": 80, "https": 443}[scheme]
    # Browsers omit the default port from an origin.
    return f"{scheme}://{host}" if port == default else f"{scheme}://{host}:{port}"
