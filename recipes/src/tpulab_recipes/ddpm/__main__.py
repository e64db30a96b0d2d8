"""`python -m tpulab_recipes.ddpm COMMAND`."""

import sys

from tpulab_recipes.ddpm.cli import main

if __name__ == "__main__":
    sys.exit(main())
