"""Dia (nari-labs, 1.6 B), text to speech: fine-tuning on XLA devices (docs/dia.md)."""
