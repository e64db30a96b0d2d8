"""A server as the tests see it: its token, and the default kernel, which some tests choose first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bridge import Bridge, slow_kernels, stock_kernels

# jupyter_server's tests set these; all their other settings choose classes inside it.
PASSED_ON = ("cull_idle_timeout", "cull_interval", "cull_connected")


@dataclass
class KernelManagerView:
    default_kernel_name: str = "python3"

    def get_kernel(self, kernel_id: str) -> object:  # noqa: ARG002
        """There is no inner object for a test to inspect; tests that require one are excluded."""
        return object()


@dataclass
class IdentityProviderView:
    token: str


class BridgeApp:
    """Started at the first request, so that earlier settings of a test (HOME, the default kernel) count."""

    def __init__(
        self,
        *,
        folder: Path,
        data_dir: Path,
        root_dir: Path,
        port: int,
        base_url: str,
        config: dict[str, Any],
        start_after_s: float = 0,
    ) -> None:
        self._folder = folder
        self._data_dir = data_dir
        self._root_dir = root_dir
        self._base_url = base_url
        self._config = config
        self._start_after_s = start_after_s
        self._bridge: Bridge | None = None
        self.port = port
        self.kernel_manager = KernelManagerView()
        # Tests send the header that they got before the bridge runs, so the token is chosen here.
        self.identity_provider = IdentityProviderView("a-token-of-the-test")

    def start(self) -> None:
        if self._bridge:
            return
        settings = culling(self._config)
        options = ["--default-kernel", self.kernel_manager.default_kernel_name]
        if settings:
            file = self._folder / "bridge.json"
            file.write_text(json.dumps({"MappingKernelManager": settings}))
            options += ["--config", str(file)]
        options += ["--env-dir", str(self._folder / "environments")]
        env = stock_kernels(self._data_dir)
        if self._start_after_s:
            env = slow_kernels(env, self._folder / "slow", self._start_after_s)
        self._bridge = Bridge(
            self._folder,
            self._root_dir,
            env=env,
            options=options,
            port=self.port,
            base_url=self._base_url,
            token=self.identity_provider.token,
        )

    def close(self) -> None:
        if self._bridge:
            self._bridge.close()


def culling(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of culling, wherever in the configuration they are."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            found |= culling(value)
        elif name in PASSED_ON:
            found[name] = value
    return found
