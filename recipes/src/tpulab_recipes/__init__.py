"""Recipes: models and training code for XLA devices, one folder per system, and the seam `runtime`.

Importing the package imports no framework.
"""

__version__ = "0.1.0"
