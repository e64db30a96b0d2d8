"""A TPU slice as one kernel: each cell runs on every host, over ipyparallel and jax.distributed."""
