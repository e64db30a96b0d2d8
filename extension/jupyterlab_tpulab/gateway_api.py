"""The few requests that the Jupyter server itself sends to a gateway. Every one has a deadline."""

from __future__ import annotations

import hmac
import json
import secrets
from dataclasses import dataclass

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest, HTTPResponse

# A living gateway answers in milliseconds, on a busy machine in seconds. The limit is generous because a
# gateway that seems dead or refusing is replaced, or left alone with its kernels.
TIMEOUT_S = 20.0


@dataclass(frozen=True)
class GatewayApi:
    """A gateway at `url` (with a trailing slash) that accepts `token`."""

    url: str
    token: str

    async def proves_itself(self, proof_key: str, timeout_s: float = TIMEOUT_S) -> bool:
        """True when the server knows the key that only the gateway and its user have. Sends no secret."""
        challenge = secrets.token_hex(32)
        response = await self._request(
            "GET", f"bridge/v1/identity?challenge={challenge}", timeout_s, {"Accept": "application/json"}
        )
        body = _json(response) if response is not None and response.code == 200 else None
        proof = body.get("proof") if isinstance(body, dict) else None
        wanted = hmac.new(proof_key.encode(), challenge.encode(), "sha256").hexdigest()
        return isinstance(proof, str) and hmac.compare_digest(proof.encode(), wanted.encode())

    async def is_serving(self, timeout_s: float = TIMEOUT_S) -> bool:
        """True when the health route accepts our token. A starting gateway counts: it is alive."""
        response = await self._request("GET", "bridge/v1/health", timeout_s)
        if response is None or response.code not in (200, 503):
            return False
        if response.code == 503:
            return True
        body = _json(response)
        return isinstance(body, dict) and body.get("status") in ("ok", "starting")

    async def allows_origin(self, origin: str, timeout_s: float = TIMEOUT_S) -> bool:
        """Whether a page of this origin may send it requests, as a browser's preflight would determine."""
        headers = {
            "Origin": origin,
            "Access-Control-Request-Method": "GET",
            "Access-Control-Request-Headers": "authorization",
        }
        response = await self._request("OPTIONS", "bridge/v1/health", timeout_s, headers)
        return response is not None and response.headers.get("Access-Control-Allow-Origin") == origin

    async def kernel_ids(self, timeout_s: float = TIMEOUT_S) -> list[str]:
        """Ids of the running kernels; empty when the gateway does not report them."""
        response = await self._request("GET", "api/kernels", timeout_s)
        body = _json(response) if response is not None and response.code == 200 else None
        if not isinstance(body, list):
            return []
        return [
            kernel["id"] for kernel in body if isinstance(kernel, dict) and isinstance(kernel.get("id"), str)
        ]

    async def shut_down_kernel(self, kernel_id: str, timeout_s: float) -> bool:
        response = await self._request("DELETE", f"api/kernels/{kernel_id}", timeout_s)
        return response is not None and response.code in (204, 404)

    async def _request(
        self, method: str, path: str, timeout_s: float, headers: dict[str, str] | None = None
    ) -> HTTPResponse | None:
        request = HTTPRequest(
            self.url + path,
            method=method,
            # A preflight and the request for a proof carry no credentials; all others are refused without.
            headers=headers or {"Authorization": f"token {self.token}"},
            connect_timeout=timeout_s,
            request_timeout=timeout_s,
            follow_redirects=False,
        )
        try:
            return await AsyncHTTPClient().fetch(request, raise_error=False)
        except (HTTPClientError, OSError):
            return None


def _json(response: HTTPResponse) -> object:
    try:
        return json.loads(response.body)
    except ValueError:
        return None
