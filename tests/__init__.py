"""Tests that see the project from outside, as notebooks and Jupyter clients do."""
