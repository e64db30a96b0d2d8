"""What was compiled, why again, and where it is kept. Knows of no socket."""
