"""GPT-SoVITS (RVC-Boss), a few-shot voice: its second stage for training, its first for speaking."""
