"""The agent of a process: its threads, its sockets, its beginning and end."""
