"""The Java that Spark runs on: none, too old, too new, broken, and the right ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from retcon.errors import Fault
from retcon.lakehouse.java import check_java

VERSIONS = {
    8: 'java version "1.8.0_392"\nJava(TM) SE Runtime Environment',
    11: 'openjdk version "11.0.21" 2023-10-17',
    17: 'openjdk version "17.0.9" 2023-10-17 LTS',
    21: 'openjdk version "21" 2023-09-19',
    25: 'openjdk version "25-ea" 2025-09-16',
}


def fake_java(home: Path, says: str, *, mode: int = 0o755, code: int = 0) -> Path:
    """A `java` that answers like the real one: on stderr."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    quoted = says.replace("'", "'\\''")
    java.write_text(f"#!/bin/sh\nprintf '%s\\n' '{quoted}' >&2\nexit {code}\n")
    java.chmod(mode)
    return java


def refused(environ: dict[str, str]) -> Fault:
    with pytest.raises(Fault) as fault:
        check_java(environ)
    assert "install Java 17 or 21" in fault.value.next
    assert "JAVA_HOME" in fault.value.next
    assert "Spark was not started" in fault.value.state
    assert fault.value.exit_code == 3
    return fault.value


@pytest.mark.parametrize("version", [17, 21])
def test_a_java_that_spark_runs_on_is_found_by_java_home_or_path(tmp_path: Path, version: int) -> None:
    java = fake_java(tmp_path, VERSIONS[version])
    assert check_java({"JAVA_HOME": str(tmp_path)}) == str(java)
    assert check_java({"PATH": str(java.parent)}) == str(java)
    assert check_java({"JAVA_HOME": "", "PATH": str(java.parent)}) == str(java)


@pytest.mark.parametrize("version", [8, 11, 25])
def test_a_java_of_another_version_is_refused_with_its_version(tmp_path: Path, version: int) -> None:
    java = fake_java(tmp_path, VERSIONS[version])
    for environ in ({"JAVA_HOME": str(tmp_path)}, {"PATH": str(java.parent)}):
        assert refused(environ).message == f"{java} is Java {version}"


def test_java_home_comes_first(tmp_path: Path) -> None:
    good, old = fake_java(tmp_path / "good", VERSIONS[17]), fake_java(tmp_path / "old", VERSIONS[8])
    assert check_java({"JAVA_HOME": str(tmp_path / "good"), "PATH": str(old.parent)}) == str(good)
    assert "is Java 8" in refused({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(good.parent)}).message


def test_no_java_at_all_is_said_to_be_none(tmp_path: Path) -> None:
    assert refused({"PATH": str(tmp_path)}).message == "Spark needs Java, and there is none on this machine"


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    good = fake_java(tmp_path / "good", VERSIONS[17])
    empty = tmp_path / "empty"
    fault = refused({"JAVA_HOME": str(empty), "PATH": str(good.parent)})
    assert fault.message == f"JAVA_HOME is {empty}, but there is no bin/java in it"


def test_a_java_that_may_not_be_run_is_no_java(tmp_path: Path) -> None:
    java = fake_java(tmp_path, VERSIONS[17], mode=0o644)
    assert f"{java} doesn't run" in refused({"JAVA_HOME": str(tmp_path)}).message
    assert "there is none" in refused({"PATH": str(java.parent)}).message


def test_a_java_that_is_a_folder_is_no_java(tmp_path: Path) -> None:
    (tmp_path / "bin" / "java").mkdir(parents=True)
    assert "there is no bin/java" in refused({"JAVA_HOME": str(tmp_path)}).message


@pytest.mark.parametrize("says", ["", "Unable to locate a Java Runtime.", "version seventeen"])
def test_a_java_that_does_not_say_its_version_is_refused(tmp_path: Path, says: str) -> None:
    java = fake_java(tmp_path, says, code=1)
    assert refused({"JAVA_HOME": str(tmp_path)}).message == f"{java} is Java of unknown version"


def test_a_java_that_answers_in_bytes_of_another_encoding_is_understood(tmp_path: Path) -> None:
    java = fake_java(tmp_path, "")
    java.write_bytes(b"#!/bin/sh\nprintf 'caf\\351 openjdk version \"17.0.9\"\\n' >&2\n")
    assert check_java({"JAVA_HOME": str(tmp_path)}) == str(java)
