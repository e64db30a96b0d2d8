"""Messages, moments and lines of the user's code. Independent of frameworks."""
