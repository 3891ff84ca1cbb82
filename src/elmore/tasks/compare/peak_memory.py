"""The most memory that this process has had at once since it was last asked to forget. Linux counts
it; elsewhere it is not known.
"""

from pathlib import Path

_FORGET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def forget_peak() -> bool:
    """Count from now on. Returns whether that is possible here."""
    try:
        _FORGET.write_text("5")
    except OSError:
        return False
    return True


def peak_bytes() -> int | None:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return 1024 * int(found[0]) if found else None
