"""Images with captions: made, fetched, encoded, stored, and read in batches."""
