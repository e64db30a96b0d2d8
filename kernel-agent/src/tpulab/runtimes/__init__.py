"""Guarded access to jax, torch and torch_xla. Knows of no step."""
