"""The state folder that the extension shares with the command `tpulab`."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from .state import find_state_dir


def test_relative_folders_are_ignored() -> None:
    assert find_state_dir("", {"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/tpulab")
    assert find_state_dir("", {"XDG_STATE_HOME": "s", "HOME": "/h"}) == Path("/h/.local/state/tpulab")
    own = Path(pwd.getpwuid(os.getuid()).pw_dir, ".local/state/tpulab")
    assert find_state_dir("", {"HOME": "h"}) == find_state_dir("", {}) == own
