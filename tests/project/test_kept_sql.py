"""What was found in SQL is kept, comes back as it was, and is never trusted further than it can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from retcon.core.models import Input, Slicing
from retcon.core.slices import Grain
from retcon.project import kept_sql, queries
from retcon.project.kept_sql import KeptSql

GIVEN: dict[str, Any] = {
    "model": "mart.a",
    "inputs": (Input(name="raw.t", table="raw.t", time="d"),),
    "slicing": Slicing(by="d", every=Grain.DAY),
    "vouched": False,
    "may_vary": False,
    "params": frozenset({"rate", "limit"}),
    "in_utc": True,
}
SQL = "SELECT d, my_own(sum(v)) AS v FROM raw.t WHERE v > :rate GROUP BY d"


class Texts(dict[str, str]):
    def keep(self, name: str, text: str) -> None:
        self[name] = text


class Reader:
    """sqlglot, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> Any:
        self.asked += 1
        return queries


def everything(sql: KeptSql) -> list[object]:
    return [
        sql.read_query(SQL, **GIVEN),
        sql.read_query("SELECT * FROM raw.t", **GIVEN),
        sql.read_metric("sum(v)"),
        sql.read_condition("v > 1"),
        sql.read_gate_query("SELECT d FROM mart.a AS a WHERE v < 0"),
        sql.is_built_in("upper"),
        sql.is_built_in("my_own"),
    ]


@pytest.fixture
def texts() -> Texts:
    return Texts()


def test_what_is_kept_comes_back_as_it_was_read(texts: Texts, tmp_path: Path) -> None:
    first = KeptSql(tmp_path, texts, Reader())
    found = everything(first)
    first.save()
    nobody = Reader()
    again = KeptSql(tmp_path, texts, nobody)
    assert everything(again) == found
    assert found[0] == queries.read_query(SQL, **GIVEN)
    assert nobody.asked == 0


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": (Input(name="raw.t", table="raw.t", time="d", lookback=1),)},
        {"slicing": Slicing(by="d", every=Grain.MONTH)},
        {"params": frozenset({"rate"})},
        {"in_utc": False},
        {"vouched": True},
    ],
)
def test_the_same_text_is_read_again_where_something_else_counts(
    texts: Texts, tmp_path: Path, change: dict[str, Any]
) -> None:
    first = KeptSql(tmp_path, texts, Reader())
    first.read_query(SQL, **GIVEN)
    first.save()
    reader = Reader()
    assert KeptSql(tmp_path, texts, reader).read_query(SQL, **{**GIVEN, **change}) == queries.read_query(
        SQL, **{**GIVEN, **change}
    )
    assert reader.asked == 1


def test_what_is_refused_is_read_and_refused_each_time(texts: Texts, tmp_path: Path) -> None:
    for asked in range(1, 3):
        reader = Reader()
        sql = KeptSql(tmp_path, texts, reader)
        assert sql.read_query("SELECT rand() AS d FROM raw.t", **GIVEN).problems
        with pytest.raises(ValueError):
            sql.read_metric("v")
        sql.save()
        assert reader.asked == 2, asked


def test_another_reader_reads_everything_again(texts: Texts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = KeptSql(tmp_path, texts, Reader())
    everything(first)
    first.save()
    monkeypatch.setattr(kept_sql, "__version__", "99")
    reader = Reader()
    everything(KeptSql(tmp_path, texts, reader))
    assert reader.asked == 7


def test_what_a_project_doesnt_say_any_more_is_let_go(texts: Texts, tmp_path: Path) -> None:
    first = KeptSql(tmp_path, texts, Reader())
    everything(first)
    first.save()
    second = KeptSql(tmp_path, texts, Reader())
    second.read_metric("sum(v)")
    second.save()
    [kept] = texts.values()
    assert list(json.loads(kept)["found"].values()) == [{"expression": "sum(v)", "is_additive": True}]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"reader": 1, "found": []}', '{"found": {}}'])
def test_what_cant_be_read_is_found_out_again(texts: Texts, tmp_path: Path, text: str) -> None:
    first = KeptSql(tmp_path, texts, Reader())
    found = everything(first)
    first.save()
    for name in texts:
        texts[name] = text
    assert everything(KeptSql(tmp_path, texts, Reader())) == found


def test_an_entry_of_another_form_is_found_out_again(texts: Texts, tmp_path: Path) -> None:
    first = KeptSql(tmp_path, texts, Reader())
    found = everything(first)
    first.save()
    for name, text in texts.items():
        body = json.loads(text)
        texts[name] = json.dumps({**body, "found": {key: {"odd": 1} for key in body["found"]}})
    assert everything(KeptSql(tmp_path, texts, Reader())) == found
