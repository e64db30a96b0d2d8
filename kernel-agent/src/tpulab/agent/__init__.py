"""The agent of a process: its threads, its sockets, its start and shutdown."""
