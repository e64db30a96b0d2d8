"""A step that the compiler refuses because a chip has too little memory, with what to change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tpulab_recipes.runtime.errors import DeviceRuntimeError

#: Messages of XLA and the TPU runtime; CUDA, MPS and XLA:GPU; PyTorch's allocator in main memory; cuBLAS.
_OUT_OF_MEMORY = re.compile(
    r"RESOURCE_EXHAUSTED|out.of.memory|can't allocate memory|CUBLAS_STATUS_ALLOC_FAILED", re.IGNORECASE
)


@contextmanager
def refuse_too_large(step: str, remedy: str) -> Iterator[None]:
    """Raises `DeviceRuntimeError` (`too_large`) where a compilation or an allocation in the block needs more
    memory than a device has. Nothing is estimated: the bytes come from the compiler that `tpulab check` uses
    too.

    Args:
        step: what is too large, in words. remedy: what to change, a sentence.
    """
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise DeviceRuntimeError("too_large", f"{step} does not fit: {reason_of(error)}. {remedy}") from error


def is_out_of_memory(error: BaseException) -> bool:
    return _OUT_OF_MEMORY.search(str(error)) is not None


def reason_of(error: Exception) -> str:
    """The first line of an error about memory, without its code: "Used 29.3G of 15.75G hbm"."""
    return str(error).rpartition("RESOURCE_EXHAUSTED: ")[2].strip().partition("\n")[0].rstrip(".")
