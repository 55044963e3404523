"""One look at the ledger: everything that is read in it is of one moment."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeVar, cast

from sqlalchemy import Connection

T = TypeVar("T")


class Look:
    """Questions by one connection, in one transaction. It is made for the first of them; the same one is asked once."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._connection: Connection | None = None
        self._answers: dict[Hashable, Any] = {}

    def answer(self, question: Callable[[Connection], T]) -> T:
        """What the ledger says. Questions are the same where they are the same function, with the same words."""
        key: Hashable = question
        if isinstance(question, partial):
            key = (question.func, question.args, tuple(question.keywords.items()))
        if key not in self._answers:
            if self._connection is None:
                self._connection = self._connect()
            self._answers[key] = question(self._connection)
        return cast("T", self._answers[key])

    def close(self) -> None:
        """Let go of the connection; nothing was written."""
        if self._connection is not None:
            self._connection.close()
