"""`python -m tpulab_recipes.ddpm COMMAND`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from tpulab_recipes.common.errors import RecipeError
from tpulab_recipes.ddpm.commands import read
from tpulab_recipes.runtime import DeviceRuntimeError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command. 1: it failed, and one sentence says why. 130: interrupted."""
    # orbax tells each of its steps; what matters to people is said by the commands themselves.
    logging.getLogger("absl").setLevel(logging.ERROR)
    try:
        command = read(sys.argv[1:] if argv is None else argv)
        command.run()
    except (RecipeError, DeviceRuntimeError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted; run the same command again to go on.\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
