"""`GET <base_url>tpulab/bridge`: where the page finds the bridge. The answer holds the bridge's token."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from jupyter_server.base.handlers import APIHandler
from tornado.web import authenticated

from .supervisor import BridgeStatus


class BridgeAddressHandler(APIHandler):
    """Answers `BridgeAddress` (protocol/src/rest.ts) to who may use this Jupyter server."""

    def initialize(self, status: Callable[[], BridgeStatus]) -> None:
        self._status = status

    @authenticated
    def get(self) -> None:
        self.set_header("Cache-Control", "no-store")
        self.finish(json.dumps(asdict(self._status())))
