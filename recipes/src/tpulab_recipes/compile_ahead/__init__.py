"""Training steps as StableHLO, and the TPU compiler for chips that are not there. Training needs none."""
