"""Runs inside a kernel: counts compilations from JAX's own log, independently of the agent.

JAX logs one line "Finished XLA compilation of NAME" for each program that the backend has compiled.
"""

import logging
import re


def _install_compile_log() -> logging.Handler:
    class CompileLog(logging.Handler):
        def __init__(self) -> None:
            super().__init__(logging.DEBUG)
            self.names: list[str] = []

        def emit(self, record: logging.LogRecord) -> None:
            found = re.match(r"Finished XLA compilation of (?:jit\((.+?)\)|(\S+)) in ", record.getMessage())
            if found:
                self.names.append(found[1] or found[2])

    log = CompileLog()
    logger = logging.getLogger("jax._src.dispatch")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(log)
    # Otherwise JAX's own handler would print every line into the cell that compiles.
    logger.propagate = False
    return log


_compile_log = _install_compile_log()
