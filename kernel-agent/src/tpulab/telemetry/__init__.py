"""Messages, moments and lines of the user's code. Knows of no framework."""
