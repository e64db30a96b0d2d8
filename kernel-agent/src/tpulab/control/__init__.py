"""Commands, and the values that they change. Independent of loops."""
