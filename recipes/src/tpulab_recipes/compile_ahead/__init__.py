"""Training steps as StableHLO, and the TPU compiler for chips that are not attached. Training does not use
this package."""
