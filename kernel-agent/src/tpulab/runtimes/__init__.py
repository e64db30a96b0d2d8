"""Guarded access to jax, torch and torch_xla. Independent of steps."""
