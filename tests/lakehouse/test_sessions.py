"""With which settings Java starts, and what is kept of what it says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.lakehouse.python_models import unsaid
from retcon.lakehouse.sessions import _A_TASK, _java_speaks_to, java_options, tasks_for, without_values

OWN = "-Dcorp.proxy=on"


def test_for_little_work_java_takes_its_quick_compiler_beside_what_the_project_chose() -> None:
    assert java_options(OWN, {}, for_little=False) == OWN
    assert java_options("", {}, for_little=False) == ""
    short = java_options(OWN, {}, for_little=True).split()
    assert short[-1] == OWN
    assert {"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"} < set(short)


@pytest.mark.parametrize(
    ("chosen", "environ"),
    [
        ("-XX:+UseZGC", {}),
        ("", {"JAVA_TOOL_OPTIONS": "-XX:+UseParallelGC"}),
        ("", {"JDK_JAVA_OPTIONS": "-XX:+UseG1GC"}),
    ],
)
def test_whoever_chose_how_java_compiles_or_collects_keeps_it(chosen: str, environ: dict[str, str]) -> None:
    assert java_options(chosen, environ, for_little=True) == chosen


@pytest.mark.parametrize("archive", ["-XX:SharedArchiveFile=a.jsa", "-XX:ArchiveClassesAtExit=a.jsa"])
def test_an_archive_of_classes_goes_with_them(archive: str) -> None:
    assert java_options(archive, {}, for_little=True) == f"{java_options('', {}, for_little=True)} {archive}"
    both = f"{archive} -XX:+UseZGC"
    assert java_options(both, {}, for_little=True) == both


def test_java_starts_with_them() -> None:
    subprocess.run(
        ["java", *java_options("", {}, for_little=True).split(), "-version"], check=True, capture_output=True
    )


def test_what_java_says_goes_to_a_file_and_what_we_say_where_it_went(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with _java_speaks_to(tmp_path / "java.log"):
        subprocess.run(["sh", "-c", "echo out; echo err >&2"], check=True)
    print("report")
    assert capfd.readouterr() == ("report\n", "")
    assert sorted((tmp_path / "java.log").read_text().split()) == ["err", "out"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("[CAST_INVALID_INPUT] The value 'ada' of the type", "CAST_INVALID_INPUT"),
        ("Job aborted: [INVALID_ARRAY_INDEX.WITH_HINT] The index 9", "INVALID_ARRAY_INDEX.WITH_HINT"),
        ("Connection refused", "Connection refused"),
    ],
)
def test_of_an_error_that_may_name_values_its_own_name_is_kept(text: str, kept: str) -> None:
    assert without_values(text) == kept


def test_of_an_error_on_a_worker_place_and_kind_are_kept() -> None:
    assert unsaid("models/mart/a.py:7: ValueError: no such customer: ada") == "models/mart/a.py:7: ValueError"
    assert unsaid("") == ""


@given(st.integers(0, 2**50), st.integers(1, 4_000))
def test_no_task_of_a_shuffle_gets_more_than_its_share_and_none_are_added_without_need(
    bytes: int, configured: int
) -> None:
    tasks = tasks_for(bytes, configured)
    assert bytes <= tasks * _A_TASK
    assert tasks == configured or bytes > tasks // 2 * _A_TASK
    assert tasks % configured == 0


def test_of_what_isnt_known_a_shuffle_is_as_configured() -> None:
    assert tasks_for(None, 8) == 8
