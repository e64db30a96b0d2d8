"""BERT fine-tuned to tell what a bank's customer wants, with Hugging Face's libraries (notebook 04)."""
