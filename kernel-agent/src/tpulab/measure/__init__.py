"""Where the time of a step goes. Knows of no socket."""
