"""YAML as plain values, each with its line; whatever else it may hold is refused in words."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.errors import Problem, ProjectInvalid
from retcon.project.yaml_text import YamlDocument, read_yaml


def read(text: str, first_line: int = 1) -> YamlDocument:
    return read_yaml(text, path="f.yaml", first_line=first_line)


def problems(text: str, first_line: int = 1) -> tuple[Problem, ...]:
    with pytest.raises(ProjectInvalid) as caught:
        read(text, first_line)
    return caught.value.problems


def problem(text: str, first_line: int = 1) -> Problem:
    (only,) = problems(text, first_line)
    return only


def test_values_are_plain_and_dates_are_dates() -> None:
    document = read("start: 2025-01-01\nname: Łódź\nn: [1, 0.5, true, null]\ntext: '2025-01-01'")
    assert document.value == {
        "start": date(2025, 1, 1),
        "name": "Łódź",
        "n": [1, 0.5, True, None],
        "text": "2025-01-01",
    }


def test_every_key_and_item_knows_its_line() -> None:
    document = read("a:\n  b: 1\n  c:\n    - x\n    - y: 2\n")
    assert document.line_of(("a",)) == 1
    assert document.line_of(("a", "b")) == 2
    assert document.line_of(("a", "c", 0)) == 4
    assert document.line_of(("a", "c", 1, "y")) == 5


def test_a_place_that_is_not_there_has_the_line_of_what_is_around_it() -> None:
    assert read("x: 1\na:\n  b: 1\n").line_of(("a", "missing", 3)) == 2


def test_lines_count_from_where_the_text_starts_in_its_file() -> None:
    assert read("a: 1\nb: 2", first_line=10).line_of(("b",)) == 11
    assert problem("a: 1\na: 2", first_line=10).line == 11
    assert problem("a: [1", first_line=10).line == 10


def test_an_empty_text_is_nothing() -> None:
    assert read("").value is None
    assert read("# only a comment\n").value is None


def test_a_key_that_stands_twice_is_refused_with_both_lines() -> None:
    found = problem("a:\n  b: 1\n  c: 2\n  b: 3\n")
    assert found == Problem(
        path="f.yaml", line=4, message="the key `b` stands twice, first on line 2", remedy="keep one of them"
    )


def test_all_double_keys_are_told_at_once() -> None:
    assert [p.line for p in problems("a: 1\na: 2\nb: {c: 1, c: 2}\n")] == [2, 3]


@pytest.mark.parametrize("key", ["off", "yes", "1", "2025-01-01", "null", "[a]"])
def test_a_key_that_yaml_does_not_take_for_text_is_refused(key: str) -> None:
    found = problem(f"ok: 1\n? {key}\n: 2\n")
    assert "isn't text" in found.message
    assert found.remedy == "put it in quotes"
    assert found.line == 2


def test_on_is_a_key_like_any_other() -> None:
    assert read_yaml("{on: [a], x: on}", path="f.yaml").value == {"on": ["a"], "x": True}


def test_a_tab_is_named_with_its_line() -> None:
    found = problem("a:\n\tb: 1\n")
    assert found.line == 2
    assert found.remedy == "indent with spaces, not tabs"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1, 2\nb: 3\n", 2),
        ("a: 'x\n", 2),
        ("a: b: c\n", 1),
        ("a: 1\n- b\n", 2),
        ("a: 1\n---\nb: 2\n", 2),
        ("a: *nobody\n", 1),
        ("schedule: */5 * * * *\n", 1),
        ("a: @x\n", 1),
        ("a: {b: 1\n", 2),
    ],
)
def test_malformed_yaml_is_refused_with_line_and_remedy(text: str, line: int) -> None:
    found = problem(text)
    assert found.line == line
    assert found.message.startswith("this isn't valid YAML: ")
    assert found.remedy


def test_a_cron_without_quotes_gets_the_fitting_remedy() -> None:
    assert "in quotes" in problem("schedule: */5 * * * *\n").remedy


@pytest.mark.parametrize(
    ("tag", "shown"),
    [
        ("!!python/object/apply:os.system ['true']", "!!python/object/apply:os.system"),
        ("!!python/name:os.system", "!!python/name:os.system"),
        ("!include other.yaml", "!include"),
    ],
)
def test_object_tags_are_refused_by_name(tag: str, shown: str) -> None:
    found = problem(f"a: 1\nb: {tag}\n")
    assert found.message == f"the tag `{shown}` isn't allowed"
    assert found.line == 2


@pytest.mark.parametrize("value", ["2025-02-30", "!!int x", "!!bool maybe", "!!timestamp x", "9" * 5000, "!!binary é"])
def test_a_value_that_cannot_be_is_refused_with_its_line(value: str) -> None:
    assert problem(f"a: 1\nb: {value}\n").line == 2


def test_aliases_that_unfold_without_end_are_refused_quickly() -> None:
    levels = "\n".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9)}]" for n in range(1, 30))
    started = time.process_time()
    found = problem(f"k0: &k0 [x]\n{levels}\n")
    assert "far too many values" in found.message
    assert time.process_time() - started < 5


def test_merges_that_unfold_without_end_are_refused_quickly() -> None:
    levels = "\n".join(f"k{n}: &k{n} {{<<: [{', '.join([f'*k{n - 1}'] * 9)}]}}" for n in range(1, 30))
    started = time.process_time()
    assert "far too many values" in problem(f"k0: &k0 {{x: 1}}\n{levels}\n").message
    assert time.process_time() - started < 5


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {<<: *a}", "a: &a {b: *a}", "[" * 1500, "a: " + "{a: " * 1500])
def test_what_holds_itself_or_goes_too_deep_is_refused(text: str) -> None:
    assert problem(text).remedy


def test_honest_anchors_and_merges_work() -> None:
    document = read("base: &base {min: 1, max: 2}\nother:\n  <<: *base\n  max: 3\n")
    assert document.value == {"base": {"min": 1, "max": 2}, "other": {"min": 1, "max": 3}}
    assert document.line_of(("other", "max")) == 4


def test_a_control_character_is_refused_with_its_line() -> None:
    assert problem("a: 1\nb: \x07\n").line == 2


@given(st.text(max_size=200))
def test_any_text_is_either_read_or_refused(text: str) -> None:
    with suppress(ProjectInvalid):
        read(text)
