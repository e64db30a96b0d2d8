"""Commands, and the values that they change. Knows of no loop."""
