"""Compilations, the reasons for recompilations, and the cache of programs. Independent of sockets."""
