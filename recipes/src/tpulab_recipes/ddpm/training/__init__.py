"""Training: the step, the loop, checkpoints, distillation, and how good and how fast a network is."""
