"""The jars beside Spark: resolved once, whole or not at all."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from retcon.errors import Fault
from retcon.lakehouse import jars
from retcon.lakehouse.jars import PACKAGES, kept_jars


class Resolver:
    """Stands in for Spark's own, which needs a network: fetches this many jars at each call."""

    def __init__(self, *counts: int, says: str = "") -> None:
        self.counts = list(counts)
        self.says = says
        self.calls = 0

    def __call__(self, scratch: Path, _packages: Sequence[str], _environ: Mapping[str, str]) -> str:
        count = self.counts[min(self.calls, len(self.counts) - 1)]
        self.calls += 1
        (scratch / "jars").mkdir(exist_ok=True)
        for number in range(count):
            (scratch / "jars" / f"jar{number}.jar").write_text("jar")
        return self.says


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Resolver], Resolver]:
    """Resolve with this, and don't wait between tries."""

    def patch(resolver: Resolver) -> Resolver:
        monkeypatch.setattr(jars, "_run_resolver", resolver)
        return resolver

    monkeypatch.setattr("retcon.lakehouse.jars.time.sleep", lambda _: None)
    return patch


def left(cache: Path) -> list[str]:
    """Everything below the cache."""
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path != cache / "jars")


def test_jars_are_resolved_once_and_kept(tmp_path: Path, use: Callable[[Resolver], Resolver]) -> None:
    resolver = use(Resolver(len(PACKAGES)))
    environ = {"RETCON_CACHE": str(tmp_path)}
    first = kept_jars(environ)
    assert [path.name for path in first] == [f"jar{n}.jar" for n in range(len(PACKAGES))]
    assert all(path.is_file() and tmp_path in path.parents for path in first)
    assert kept_jars(environ) == first
    assert resolver.calls == 1
    assert len(left(tmp_path)) == 1 + len(PACKAGES), "no scratch is left"


def test_other_packages_are_resolved_anew(
    tmp_path: Path, use: Callable[[Resolver], Resolver], monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = use(Resolver(len(PACKAGES)))
    before = kept_jars({"RETCON_CACHE": str(tmp_path)})
    monkeypatch.setattr(jars, "PACKAGES", (*PACKAGES[:-1], "org.postgresql:postgresql:99"))
    after = kept_jars({"RETCON_CACHE": str(tmp_path)})
    assert resolver.calls == 2
    assert {path.parent for path in before} != {path.parent for path in after}


def test_a_first_try_that_fails_is_tried_again(tmp_path: Path, use: Callable[[Resolver], Resolver]) -> None:
    resolver = use(Resolver(0, 1, len(PACKAGES)))
    assert len(kept_jars({"RETCON_CACHE": str(tmp_path)})) == len(PACKAGES)
    assert resolver.calls == 3


@pytest.mark.parametrize("fetched", [0, len(PACKAGES) - 1])
def test_jars_that_can_not_be_fetched_are_a_fault_with_the_remedy_and_nothing_is_left(
    tmp_path: Path, use: Callable[[Resolver], Resolver], fetched: int
) -> None:
    says = ":: resolving\n  unresolved dependency: org.apache.iceberg#iceberg: not found\nexit 1\n"
    resolver = use(Resolver(fetched, says=says))
    for _ in range(2):
        with pytest.raises(Fault, match="could not be fetched") as fault:
            kept_jars({"RETCON_CACHE": str(tmp_path)})
    assert "unresolved dependency: org.apache.iceberg#iceberg: not found" in fault.value.message
    assert "needs the network" in fault.value.next
    assert "Spark was not started" in fault.value.state
    assert fault.value.retryable
    assert resolver.calls == 6
    assert left(tmp_path) == []
    use(Resolver(len(PACKAGES)))
    assert len(kept_jars({"RETCON_CACHE": str(tmp_path)})) == len(PACKAGES)


def test_a_resolver_that_says_nothing_is_a_fault_all_the_same(
    tmp_path: Path, use: Callable[[Resolver], Resolver]
) -> None:
    use(Resolver(0))
    with pytest.raises(Fault, match="no answer"):
        kept_jars({"RETCON_CACHE": str(tmp_path)})


def test_a_resolver_that_hangs_is_a_fault_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(command: list[str], **_: object) -> None:
        raise subprocess.TimeoutExpired(command, 900)

    monkeypatch.setattr("retcon.lakehouse.jars.time.sleep", lambda _: None)
    monkeypatch.setattr("retcon.lakehouse.jars.subprocess.run", hang)
    with pytest.raises(Fault, match="could not be fetched") as fault:
        kept_jars({"RETCON_CACHE": str(tmp_path)})
    assert "900 seconds" in fault.value.message
    assert left(tmp_path) == []


def test_a_resolver_that_breaks_leaves_nothing(
    tmp_path: Path, use: Callable[[Resolver], Resolver], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaking(Resolver):
        def __call__(self, scratch: Path, packages: Sequence[str], environ: Mapping[str, str]) -> str:
            super().__call__(scratch, packages, environ)
            raise KeyboardInterrupt

    use(Breaking(len(PACKAGES)))
    with pytest.raises(KeyboardInterrupt):
        kept_jars({"RETCON_CACHE": str(tmp_path)})
    assert left(tmp_path) == []


def test_a_second_process_that_came_first_is_as_good(tmp_path: Path, use: Callable[[Resolver], Resolver]) -> None:
    class Overtaken(Resolver):
        def __call__(self, scratch: Path, packages: Sequence[str], environ: Mapping[str, str]) -> str:
            super().__call__(scratch, packages, environ)
            theirs = scratch.parent / folder
            theirs.mkdir()
            (theirs / "theirs.jar").write_text("jar")
            return ""

    use(Resolver(len(PACKAGES)))
    folder = kept_jars({"RETCON_CACHE": str(tmp_path / "other")})[0].parent.name
    use(Overtaken(len(PACKAGES)))
    assert [path.name for path in kept_jars({"RETCON_CACHE": str(tmp_path)})] == ["theirs.jar"]


def test_a_cache_that_can_not_be_made_is_a_fault_with_the_remedy(
    tmp_path: Path, use: Callable[[Resolver], Resolver]
) -> None:
    resolver = use(Resolver(len(PACKAGES)))
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    for environ in ({"RETCON_CACHE": str(in_the_way)}, {"XDG_CACHE_HOME": str(in_the_way)}):
        with pytest.raises(Fault, match="the jars can't be kept in") as fault:
            kept_jars(environ)
        assert str(in_the_way) in fault.value.message
        assert "RETCON_CACHE" in fault.value.next
    assert resolver.calls == 0


def test_the_cache_is_where_the_environment_says(
    tmp_path: Path, use: Callable[[Resolver], Resolver], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(Resolver(len(PACKAGES)))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for environ, place in (
        ({"RETCON_CACHE": str(tmp_path / "a"), "XDG_CACHE_HOME": str(tmp_path / "b")}, tmp_path / "a"),
        ({"XDG_CACHE_HOME": str(tmp_path / "b")}, tmp_path / "b" / "retcon"),
        ({}, tmp_path / "home" / ".cache" / "retcon"),
    ):
        assert kept_jars(environ)[0].parent.parent == place / "jars"
