"""Large blocks of memory are kept between steps, instead of being requested again."""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # glibc's names for what mallopt sets
_NEVER = 2**31 - 1


def keep_large_blocks() -> None:
    """Have glibc reuse large blocks. By default it hands those over 32 MB back to the system at
    once, and a training step, which asks for the same ones every time, spends a quarter of its time
    on page faults. Elsewhere than on glibc this does nothing."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, _NEVER)
