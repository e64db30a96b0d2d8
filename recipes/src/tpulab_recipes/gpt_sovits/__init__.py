"""GPT-SoVITS (RVC-Boss, MIT), a few-shot voice: its second stage trained on XLA devices, its first stage spoken."""
