"""Every error that retcon raises on purpose.

RetconError                    exit  what it means
├── BadArguments                2    the command line can't be understood
├── Refused                     1    the project or the state of things says no
│   ├── ProjectInvalid          1    files of the project hold problems, all of them listed
│   └── Conflict                1    somebody else wrote to what this run covers
├── GatesFailed                 4    the staged slices didn't pass; nothing was published
│   └── ProductionFailed        4    published, and production isn't what was proven, or doesn't pass
├── Fault                       3    something outside retcon broke; `retryable` says whether trying again can help
│   └── LostMetadata            3    the catalog points a table at a file that isn't there
└── Interrupted               130    the person at the keyboard asked to stop
"""

from __future__ import annotations

from collections.abc import Sequence

from retcon.values import dataclass


class RetconError(Exception):
    """The root: what happened, what state things are in, what to do next."""

    code = "error"
    exit_code = 3

    def __init__(self, message: str, *, state: str = "", next: str = "", recorded: str = "") -> None:
        """`recorded`: what the ledger keeps of it, where the message names values of rows."""
        super().__init__(message)
        self.message = message
        self.state = state
        self.next = next
        self.recorded = recorded or message


class BadArguments(RetconError):
    code = "arguments"
    exit_code = 2


class Refused(RetconError):
    code = "refused"
    exit_code = 1


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong in one file of the project."""

    path: str
    message: str
    line: int | None = None
    remedy: str = ""

    @property
    def where(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


class ProjectInvalid(Refused):
    code = "project"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        more = len(self.problems) - 1
        super().__init__(
            f"{first.where}: {first.message}" + (f" (and {more} more)" if more else ""),
            next=first.remedy,
        )


class Conflict(Refused):
    code = "conflict"


class GatesFailed(RetconError):
    code = "gate"
    exit_code = 4


class ProductionFailed(GatesFailed):
    code = "production"


class Fault(RetconError):
    code = "fault"
    exit_code = 3

    def __init__(
        self, message: str, *, state: str = "", next: str = "", recorded: str = "", retryable: bool = False
    ) -> None:
        super().__init__(message, state=state, next=next, recorded=recorded)
        self.retryable = retryable


class LostMetadata(Fault):
    pass


class Interrupted(RetconError):
    code = "interrupted"
    exit_code = 130
