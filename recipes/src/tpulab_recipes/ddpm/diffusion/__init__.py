"""The mathematics: noise levels, the forward process, steps of sampling, the target of distillation."""
