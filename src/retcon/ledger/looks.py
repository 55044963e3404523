"""One look at the ledger: everything that is read in it is of one moment."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

from retcon.ledger.faults import what_breaks
from retcon.ledger.statements import Transaction

T = TypeVar("T")


class Look:
    """Questions by one connection, in one transaction. It is made for the first of them; the same one is asked once."""

    def __init__(self, connect: Callable[[], Transaction]) -> None:
        self._connect = connect
        self._connection: Transaction | None = None
        self._answers: dict[Hashable, Any] = {}
        self._broken: Exception | None = None

    def answer(self, question: Callable[[Transaction], T]) -> T:
        """What the ledger says. Questions are the same where they are the same function, with the same words."""
        key = _named(question)
        if key not in self._answers:
            self._answers[key] = self.ask(question)
        return cast("T", self._answers[key])

    def ask(self, question: Callable[[Transaction], T]) -> T:
        """The same of what is large, and asked once: it isn't remembered."""
        if self._broken is not None:
            # Another connection would see another moment; this one can only say that it has none.
            raise self._broken
        try:
            if self._connection is None:
                self._connection = self._connect()
            return question(self._connection)
        except what_breaks() as broken:
            self._broken = broken if self._connection is not None else None
            raise

    def close(self) -> None:
        """Let go of the connection. If it is gone already, nothing is lost: nothing was written."""
        if self._connection is not None:
            with suppress(*what_breaks()):
                self._connection.close()


def _named(question: Callable[[Transaction], Any]) -> Hashable:
    if isinstance(question, partial):
        return question.func, question.args, tuple(question.keywords.items())
    return question
