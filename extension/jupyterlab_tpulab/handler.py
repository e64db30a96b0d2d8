"""`GET <base_url>tpulab/bridge`: where the page finds the bridge. The token is for pages on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from jupyter_server.base.handlers import APIHandler
from tornado.web import authenticated

from .origins import LOOPBACK
from .supervisor import BridgeStatus


class BridgeAddressHandler(APIHandler):
    """Sends `BridgeAddress` (protocol/src/rest.ts) to users of this Jupyter server."""

    def initialize(self, status: Callable[[], BridgeStatus], proxy: str | None = None) -> None:
        self._status = status
        self._proxy = proxy

    @authenticated
    def get(self) -> None:
        self.set_header("Cache-Control", "no-store")
        answer = asdict(self._status()) | {"proxy": self._proxy}
        if self._proxy is not None and self.request.host_name not in LOOPBACK:
            # That page goes through this server, which knows the token itself.
            answer |= {"url": None, "token": None, "proofKey": None}
        self.finish(json.dumps(answer))
