"""Tests that use the project from outside, as notebooks and Jupyter clients do."""
