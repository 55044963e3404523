"""Dataclasses that are made when they are used: to whoever uses them, the standard library's."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, asdict, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path

import pytest

from retcon.values import dataclass
from retcon.wiring import write_project


@dataclass(frozen=True, kw_only=True)
class Late:
    """One of ours."""

    name: str
    size: int = 3
    parts: Mapping[str, int] = field(default_factory=dict)
    note: str = field(default="", compare=False)

    @cached_property
    def double(self) -> int:
        return self.size * 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Usual:
    """The standard library's."""

    name: str
    size: int = 3
    parts: Mapping[str, int] = field(default_factory=dict)
    note: str = field(default="", compare=False)


def test_it_is_what_the_standard_library_makes() -> None:
    one = Late(name="a", note="x")
    assert repr(one) == repr(Usual(name="a", note="x")).replace("Usual", "Late")
    assert (one == Late(name="a", note="y"), one == Late(name="b"), one == Usual(name="a")) == (True, False, False)
    assert asdict(one) == asdict(Usual(name="a", note="x"))
    assert [each.name for each in fields(one)] == [each.name for each in fields(Usual)]
    assert replace(one, size=4).size == 4
    assert (one.double, copy.copy(one), is_dataclass(one)) == (6, one, True)
    assert one.parts is not Late(name="a").parts
    assert hash(Pair(left=1)) == hash(Pair(left=1))


@dataclass(frozen=True, kw_only=True)
class Pair:
    left: int
    right: int = 0

    def __post_init__(self) -> None:
        if self.right < 0:
            raise ValueError("less than nothing")

    def __repr__(self) -> str:
        return f"{self.left}/{self.right}"


def test_what_a_class_says_itself_holds() -> None:
    assert repr(Pair(left=1)) == "1/0"
    assert Pair.right == 0
    with pytest.raises(ValueError, match="less than nothing"):
        Pair(left=1, right=-1)


@pytest.mark.parametrize("given", [{}, {"left": 1, "middle": 2}])
def test_what_is_missing_or_unknown_is_refused_the_first_time_as_ever(given: dict[str, int]) -> None:
    @dataclass(frozen=True, kw_only=True)
    class New:
        left: int

    for _ in range(2):
        with pytest.raises(TypeError):
            New(**given)


def test_nothing_of_it_can_be_changed() -> None:
    one = Pair(left=1)
    with pytest.raises(FrozenInstanceError, match="'left'"):
        one.left = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="'left'"):
        del one.left
    with pytest.raises(FrozenInstanceError):
        one.other = 2  # type: ignore[attr-defined]


def test_one_that_comes_from_elsewhere_is_equal_though_none_was_made_here() -> None:
    text = pickle.dumps(Pair(left=1)), pickle.dumps(Pair(left=1))
    code = f"import pickle; one, other = map(pickle.loads, {text!r}); print(one == other, len({{one, other}}), one)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True 1 1/0\n"


def test_threads_may_make_the_first_at_once() -> None:
    for _ in range(20):

        @dataclass(frozen=True, kw_only=True)
        class New:
            left: int
            right: list[int] = field(default_factory=list)

        start, made = threading.Barrier(4), []

        def make(kind: type[New] = New, start: threading.Barrier = start, made: list[New] = made) -> None:
            start.wait()
            made.append(kind(left=1))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 4
        assert len({repr(each) for each in made}) == 1
        assert made[0] == made[3]


def test_a_class_is_made_when_it_is_first_used() -> None:
    @dataclass(frozen=True, kw_only=True)
    class New:
        left: int

    assert "__dataclass_params__" not in vars(New)
    New(left=1)
    assert "__dataclass_params__" in vars(New)


def test_a_class_that_nobody_used_yet_has_fields_and_may_be_inherited_from() -> None:
    @dataclass(frozen=True, kw_only=True)
    class New:
        left: int
        right: int = 0

    @dataclass(frozen=True, kw_only=True)
    class Newer(New):
        middle: int = 5

    assert [each.name for each in fields(Newer)] == ["left", "right", "middle"]
    assert repr(Newer(left=1)).endswith("Newer(left=1, right=0, middle=5)")
    assert is_dataclass(New)
    assert [each.name for each in fields(New)] == ["left", "right"]


def test_status_makes_few_of_the_dataclasses_that_it_loads(tmp_path: Path) -> None:
    write_project(tmp_path / "shop", "shop")
    code = (
        "import sys; from retcon.cli.main import run; assert run(['status', '--json']) == 0\n"
        "kinds = [kind for name, module in sys.modules.items() if name.startswith('retcon.core.')\n"
        "         for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == name\n"
        "         and '__dataclass_fields__' in vars(kind)]\n"
        "print(len(kinds), sum('__dataclass_params__' in vars(kind) for kind in kinds))"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=tmp_path / "shop", capture_output=True, text=True, check=True)
    loaded, made = map(int, done.stdout.splitlines()[-1].split())
    assert loaded > 100
    assert made < loaded / 2
