"""What was found out a moment ago is not found out again, for a minute."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest

from retcon.lakehouse.recent import Recent


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_answer_holds_for_a_minute_from_when_it_was_asked_for() -> None:
    clock = Clock()
    recent: Recent[str, int] = Recent(clock)
    answers = iter(range(10))

    def asked(key: str) -> int:
        return recent.get(key, lambda: next(answers))

    assert [asked("a"), asked("b"), asked("a")] == [0, 1, 0]
    clock.now = 59.0
    assert asked("a") == 0, "that it was asked for again makes it no younger"
    clock.now = 60.0
    assert [asked("a"), asked("a")] == [2, 2]


def test_what_is_old_is_let_go_whatever_is_asked() -> None:
    clock = Clock()
    recent: Recent[int, object] = Recent(clock)
    for key in range(5):
        recent.get(key, object)
    clock.now = 61.0
    recent.get(5, object)
    assert len(recent._found) == 1


def test_what_could_not_be_found_out_is_tried_again() -> None:
    recent: Recent[str, int] = Recent()
    with pytest.raises(ZeroDivisionError):
        recent.get("a", lambda: 1 // 0)
    assert recent.get("a", lambda: 1) == 1


def test_those_who_ask_at_once_get_one_answer() -> None:
    recent: Recent[str, object] = Recent()
    both = Barrier(2, timeout=30)
    got: list[object] = []

    def find() -> object:
        both.wait()  # nobody waits for the other one's answer
        return object()

    threads = [Thread(target=lambda: got.append(recent.get("a", find))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got[0] is got[1]


def test_what_is_forgotten_is_found_out_anew() -> None:
    recent: Recent[str, object] = Recent()
    first = recent.get("a", object)
    recent.forget()
    assert recent.get("a", object) is not first
