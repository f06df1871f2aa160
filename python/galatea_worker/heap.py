"""How the C library keeps memory that numpy frees.

By default an array of some megabytes is mapped when it is made and unmapped when it is freed, and every page of it costs
a fault each time: adding 4 MiB and copying the sum took 3.1 ms, adding into memory that was still there 0.5 ms.
"""
import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's numbers
_KEPT_BYTES = 64 << 20
_LARGEST_FROM_HEAP = 32 << 20  # glibc takes no more


def keep_freed_memory():
    """Up to 64 MiB of freed memory stay with the process until `give_back`, unless the user set these variables."""
    if "MALLOC_TRIM_THRESHOLD_" in os.environ or "MALLOC_MMAP_THRESHOLD_" in os.environ:
        return
    if _has("mallopt"):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _LARGEST_FROM_HEAP)
        library.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def give_back():
    if _has("malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)


def _has(name):
    return sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), name)
