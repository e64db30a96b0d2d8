"""Where the time of a step goes. Independent of sockets."""
