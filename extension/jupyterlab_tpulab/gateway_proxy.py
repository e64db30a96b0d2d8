"""The bridge at the Jupyter server's own address, for pages that cannot reach it (JupyterHub, https).

`<base_url>tpulab/gateway/…` is passed on to the bridge by jupyter-server-proxy, which is optional. This
server adds the bridge's token, so it never reaches the browser; the page's cookies and origin stay here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jupyter_server.base.handlers import JupyterHandler
from tornado.web import HTTPError

from .supervisor import BridgeStatus

if TYPE_CHECKING:
    from jupyter_server_proxy.handlers import RewritableResponse

PROXY_PATH = "tpulab/gateway/"


def proxy_handler() -> type[JupyterHandler] | None:
    """The handler class, or None where jupyter-server-proxy is not installed."""
    try:
        from jupyter_server_proxy.handlers import LocalProxyHandler
    except ImportError:
        return None

    class GatewayProxyHandler(LocalProxyHandler):  # type: ignore[misc]
        """Passes requests and sockets of users of this Jupyter server on to the bridge."""

        def __init__(self, *args: Any, status: Callable[[], BridgeStatus], **kwargs: Any) -> None:
            kwargs["rewrite_response"] = without_cookies
            super().__init__(*args, **kwargs)
            self._status = status
            self.proxy_base = PROXY_PATH.rstrip("/")

        def check_xsrf_cookie(self) -> None:
            """The proxy leaves this check to its target; the bridge receives no origin and cannot check."""
            JupyterHandler.check_xsrf_cookie(self)

        def get_request_headers_override(self) -> dict[str, str]:
            return {"Authorization": f"token {self._status().token}"}

        def proxy_request_headers(self) -> Any:
            headers = super().proxy_request_headers()
            # The bridge accepts only its own host names; the other headers are between the page and this
            # server.
            for name in ("Host", "Cookie", "Origin", "X-XSRFToken", "Referer"):
                headers.pop(name, None)
            return headers

        async def http_get(self, proxied_path: str) -> Any:
            return await self.proxy(proxied_path)

        async def open(self, proxied_path: str) -> None:
            # Without this each small message waits for the other side's acknowledgement: 45 ms a round trip.
            self.set_nodelay(True)
            await self.proxy_open("127.0.0.1", self._port(), proxied_path)

        def post(self, proxied_path: str) -> Any:
            return self.proxy(proxied_path)

        put = delete = head = patch = options = post

        def proxy(self, proxied_path: str) -> Any:
            return super(LocalProxyHandler, self).proxy("127.0.0.1", self._port(), proxied_path)

        def _port(self) -> int:
            port = urlsplit(self._status().url or "").port
            if port is None:
                raise HTTPError(503, self._status().message or "The kernel bridge is starting.")
            return port

    return GatewayProxyHandler


def without_cookies(response: RewritableResponse) -> None:
    """Removes cookies: the proxy's target must set none for this server."""
    if "Set-Cookie" in response.headers:
        del response.headers["Set-Cookie"]
