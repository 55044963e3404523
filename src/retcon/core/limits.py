"""Limits: how much one plan may ask for."""

from __future__ import annotations

from retcon.errors import Refused
from retcon.values import dataclass


class OverLimits(Refused):
    """More is asked for than the project allows at a time."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """A plan over one of them is refused."""

    slices: int = 5000
    bytes: int = 1_000_000_000_000
    keys: int = 10_000_000

    def require(self, *, slices: int = 0, bytes: int = 0, keys: int = 0) -> None:
        """Refused where more is asked for."""
        pairs = {"slices": (slices, self.slices), "bytes": (bytes, self.bytes), "keys": (keys, self.keys)}
        over = [f"{asked:,} {what}, at most {most:,} allowed" for what, (asked, most) in pairs.items() if asked > most]
        if over:
            raise OverLimits(
                "the plan is over the project's limits: " + "; ".join(over),
                state="no plan was written",
                next="ask for less at a time, or raise `limits` in retcon.yaml",
            )
