"""`python -m tpulab_recipes.ddpm COMMAND`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from tpulab_recipes.common.command_line import exit_status
from tpulab_recipes.ddpm.commands import read


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; see `exit_status`."""
    # orbax logs each of its steps, and with a traceback what it then raises; the commands print what matters
    # to people.
    logging.getLogger("absl").setLevel(logging.CRITICAL)
    return exit_status(lambda: read(sys.argv[1:] if argv is None else argv).run())


if __name__ == "__main__":
    sys.exit(main())
