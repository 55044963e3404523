"""Processes of this machine: which one this is, and whether another is still there."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from retcon.core.leases import Driver


def this_process(who: str) -> Driver:
    """The process that runs now."""
    return Driver(who=who, host=socket.gethostname(), pid=os.getpid(), began=_began(os.getpid()))


def is_gone(driver: Driver) -> bool:
    """Did this process end? Told of this machine's only; of another's nobody knows."""
    if driver.host != socket.gethostname():
        return False
    try:
        os.kill(driver.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # somebody else's, and there
    return bool(driver.began) and _began(driver.pid) != driver.began


def _began(pid: int) -> str:
    """The start of a process in ticks since the machine's own, where the system shows it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
