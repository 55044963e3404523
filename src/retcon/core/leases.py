"""Leases: one process drives a run at a time, and one that lost its turn can't publish."""

from __future__ import annotations

from retcon.values import dataclass

LEASE_SECONDS = 60.0
"""After this long without a sign of life, another process may take the run over."""

LOOK_SECONDS = 2.0
"""How often a process that drives a run looks whether it is asked to stop."""


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A process that drives runs."""

    who: str
    host: str
    pid: int
    began: str
    """When it started, as its system tells: the numbers of processes are used again. Empty where it doesn't."""

    def __str__(self) -> str:
        return f"{self.who} on {self.host} (process {self.pid})"


@dataclass(frozen=True, kw_only=True)
class StopRequest:
    """What somebody asks of the process that drives a run."""

    who: str
    """Empty: whoever sits before it."""
    why: str

    @property
    def told(self) -> str:
        """`asked by ann: the cluster is needed`."""
        return f"asked by {self.who}{f': {self.why}' if self.why else ''}" if self.who else self.why


@dataclass(frozen=True, kw_only=True)
class Lease:
    """Who drives a run, and by which token: the ledger takes nothing that comes with an older one."""

    token: int
    driver: Driver
    seconds_left: float
    asked: StopRequest | None = None
    """To be granted by this driver; whoever holds the next lease doesn't hear of it."""
