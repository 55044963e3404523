"""How a table's columns change when a model's output does."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.evolution import (
    AddColumn,
    CommentColumn,
    DropColumn,
    Repartition,
    RetypeColumn,
    SchemaChange,
    Step,
    WidenColumn,
    change_document,
    change_from,
    change_text,
    changes_for,
    column_history,
    columns_taken_anew,
    is_built_beside,
    require_planned,
)
from retcon.core.models import Strategy
from retcon.core.tables import Column, SchemaVersion, TableFacts
from retcon.core.types import is_same_type, kind_of
from retcon.errors import Refused
from tests.core.examples import a_model, facts

MODEL = a_model("mart.m", "raw.s")
FULL = a_model("mart.m", "raw.s", strategy=Strategy.FULL)


def table(**columns: str) -> TableFacts:
    return facts("mart.m", [("d", "date"), *columns.items()])


def changes(old: str, new: str) -> tuple[SchemaChange, ...]:
    return changes_for(MODEL, table(x=old), {"d": "date", "x": new})


def version(snapshot: int | None, *columns: Column, run: str | None = None, cut: bool = False) -> SchemaVersion:
    at = datetime(2026, 1, 22, tzinfo=UTC) if snapshot else None
    return SchemaVersion(snapshot_id=snapshot, at=at, run=run, columns=columns, is_oldest_kept=cut)


def test_the_same_columns_in_any_case_and_order_need_no_change() -> None:
    assert changes_for(MODEL, table(x="bigint"), {"X": "LONG", "D": "date"}) == ()


def test_new_columns_are_added_with_the_type_that_is_known() -> None:
    found = changes_for(MODEL, table(), {"d": "date", "Tax": None, "net": "int"})
    assert found == (AddColumn(column="Tax", type=None), AddColumn(column="net", type="int"))
    assert [change_text(change) for change in found] == [
        "new column Tax (its type is told by Spark when staging begins)",
        "new column net (int)",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [("int", "bigint"), ("float", "double"), ("decimal(10,2)", "decimal(18,2)"), ("integer", "long")],
)
def test_types_that_iceberg_can_widen_are_widened(old: str, new: str) -> None:
    [change] = changes(old, new)
    assert isinstance(change, WidenColumn)
    assert is_same_type(change.type, old)
    assert is_same_type(change.to, new)


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [("struct<a:int>", "struct<a:bigint,b:string>",
      (WidenColumn(column="x.a", type="int", to="bigint"), AddColumn(column="x.b", type="string"))),
     ("array<struct<a:int>>", "array<struct<a:int,b:array<int>>>",
      (AddColumn(column="x.element.b", type="array<int>"),)),
     ("map<string,float>", "map<string,double>", (WidenColumn(column="x.value", type="float", to="double"),)),
     ("struct<a:int,b:int>", "struct<b:int,a:int>", ())],
)  # fmt: skip
def test_nested_fields_are_added_and_widened_too(old: str, new: str, wanted: tuple[SchemaChange, ...]) -> None:
    assert changes(old, new) == wanted


@pytest.mark.parametrize(
    ("old", "new"),
    [("bigint", "int"), ("double", "float"), ("decimal(18,2)", "decimal(10,2)"), ("decimal(10,2)", "decimal(18,3)"),
     ("int", "string"), ("int", "double"), ("string", "binary"), ("timestamp", "timestamp_ntz"),
     ("struct<a:int,b:int>", "struct<a:int>"), ("struct<a:int>", "int"), ("array<int>", "array<string>"),
     ("map<int,int>", "map<bigint,int>"), ("struct<a:struct<b:int>>", "struct<a:array<int>>"),
     ("struct<a,b:int>", "struct<a,b:bigint>")],
)  # fmt: skip
def test_any_other_change_of_a_type_is_refused_naming_column_both_types_and_snapshot(old: str, new: str) -> None:
    held = replace(
        table(x=old), versions=(version(7, Column(name="d", type="date", id=1), Column(name="x", type=old, id=2)),)
    )
    with pytest.raises(Refused) as refused:
        changes_for(MODEL, held, {"d": "date", "x": new})
    assert refused.value.message == f"mart.m.x: the query yields {new}, the table has {old}, since snapshot 7"
    assert "CAST" in refused.value.next


def test_the_slice_column_never_changes_its_type() -> None:
    with pytest.raises(Refused, match=r"mart\.m\.d: the query yields bigint, the table has int"):
        changes_for(MODEL, facts("mart.m", [("d", "int")]), {"d": "bigint"})


def test_a_column_that_the_query_no_longer_yields_is_refused_with_how_to_keep_or_drop_it() -> None:
    held = replace(
        table(x="int"),
        versions=(version(7, Column(name="d", type="date", id=1), Column(name="x", type="int", id=2), run="r1"),),
    )
    with pytest.raises(Refused) as refused:
        changes_for(MODEL, held, {"d": "date"})
    assert "the table has x (int, since snapshot 7 of run r1), which the query doesn't yield" in refused.value.message
    assert "CAST(NULL AS int) AS x" in refused.value.next
    assert "DROP COLUMN x" in refused.value.next
    assert "`strategy: full`" in refused.value.next


def test_with_strategy_full_whatever_the_table_cannot_take_is_built_beside() -> None:
    found = changes_for(FULL, table(x="string", y="int", z="int"), {"d": "date", "x": "LONG", "z": "bigint", "w": None})
    assert found == (
        RetypeColumn(column="x", type="string", to="bigint"),
        DropColumn(column="y", type="int"),
        WidenColumn(column="z", type="int", to="bigint"),
        AddColumn(column="w", type=None),
    )
    assert [change_text(change) for change in found[:2]] == [
        "column x: string becomes bigint",
        "column y (int) goes away",
    ]
    assert is_built_beside(found)
    assert not is_built_beside(found[2:])
    assert changes_for(FULL, facts("mart.m", [("d", "string")]), {"d": "date"}) == (
        RetypeColumn(column="d", type="string", to="date"),
    )


def test_a_renamed_column_is_told_as_such() -> None:
    with pytest.raises(Refused, match=r"the table has revenue ") as refused:
        changes_for(MODEL, table(revenue="int"), {"d": "date", "revenue_usd": "int"})
    assert "name revenue_usd revenue again" in refused.value.next


def test_comments_are_changes_where_the_table_has_others() -> None:
    model = a_model("mart.m", "raw.s", comments=(("X", "with tax"), ("d", "of the order")))
    held = facts("mart.m", [("d", "date"), ("x", "int")])
    held = replace(held, columns=(replace(held.columns[0], comment="of the order"), held.columns[1]))
    assert changes_for(model, held, {"d": "date", "x": "int"}) == (CommentColumn(column="X", comment="with tax"),)


def test_what_the_plan_said_may_be_done_and_nothing_else() -> None:
    planned = (AddColumn(column="tax", type=None), WidenColumn(column="x", type="int", to="bigint"))
    require_planned(MODEL, (AddColumn(column="Tax", type="int"), planned[1]), planned)
    require_planned(MODEL, (), planned)
    for other in (
        AddColumn(column="net", type="int"),
        WidenColumn(column="y", type="int", to="bigint"),
        DropColumn(column="tax", type="int"),
        RetypeColumn(column="x", type="int", to="bigint"),
    ):
        with pytest.raises(Refused, match="the plan doesn't say so") as refused:
            require_planned(MODEL, [other], planned)
        assert "`columns:`" in refused.value.next


NAMES = st.text(min_size=1, max_size=10)


@given(
    st.one_of(
        st.builds(AddColumn, column=NAMES, type=st.none() | NAMES),
        st.builds(WidenColumn, column=NAMES, type=NAMES, to=NAMES),
        st.builds(CommentColumn, column=NAMES, comment=NAMES),
        st.builds(DropColumn, column=NAMES, type=NAMES),
        st.builds(RetypeColumn, column=NAMES, type=NAMES, to=NAMES),
        st.builds(Repartition, partitioning=NAMES, to=NAMES),
    )
)
def test_a_change_comes_back_from_its_document(change: SchemaChange) -> None:
    assert change_from(change_document(change)) == change


SCALARS = st.sampled_from(["int", "bigint", "string", "decimal(10,2)", "timestamp_ntz"])
TYPES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(lambda kind: f"array<{kind}>"),
        st.tuples(inner, inner).map(lambda kinds: f"map<{kinds[0]},{kinds[1]}>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: f"struct<{','.join(f'f{at}:{kind}' for at, kind in enumerate(kinds))}>"
        ),
    ),
    max_leaves=8,
)


@given(TYPES)
def test_every_type_can_be_taken_apart_and_needs_no_change_to_itself(text: str) -> None:
    kind = kind_of(text)
    assert kind is not None
    assert kind.text == text
    assert changes(text, text) == ()


@given(TYPES, TYPES)
def test_the_way_from_one_type_to_another_is_one_way(old: str, new: str) -> None:
    try:
        there = changes(old, new)
    except Refused:
        return
    if there:
        with pytest.raises(Refused):
            changes(new, old)


@given(TYPES, TYPES)
def test_with_strategy_full_there_is_a_way_from_every_type_to_every_other(old: str, new: str) -> None:
    there = changes_for(FULL, table(x=old), {"d": "date", "x": new})
    try:
        assert there == changes(old, new)
    except Refused:
        assert there == (RetypeColumn(column="x", type=old, to=new),)


def test_history_tells_what_became_of_each_column_by_its_id() -> None:
    d, x, y = (Column(name=name, type=kind, id=id) for name, kind, id in
               (("d", "date", 1), ("x", "int", 2), ("y", "string", 3)))  # fmt: skip
    wide, renamed = replace(x, type="bigint"), replace(x, type="bigint", name="z")
    found = column_history(
        [version(1, d, x, cut=True), version(2, d, wide, y, run="r2"), version(3, d, renamed), version(None, d, x)]
    )
    told = [(s.version.snapshot_id, s.step, s.column, s.type, s.before) for s in found]
    assert told == [
        (1, Step.MADE, "d", "date", None),
        (1, Step.MADE, "x", "int", None),
        (2, Step.CHANGED, "x", "bigint", "int"),
        (2, Step.ADDED, "y", "string", None),
        (3, Step.RENAMED, "z", "bigint", "x"),
        (3, Step.DROPPED, "y", "string", "string"),
        (None, Step.RENAMED, "x", "int", "z"),
        (None, Step.CHANGED, "x", "int", "bigint"),
    ]


def test_columns_are_taken_anew_since_the_first_snapshot_with_their_new_ids() -> None:
    old, new = (Column(name="x", type="int", id=id) for id in (2, 3))
    wider, other = replace(new, type="bigint"), Column(name="y", type="int", id=4)
    versions = (version(1, old), version(2), version(3, new), version(4, wider, other))

    def anew(count: int) -> SchemaVersion | None:
        now = versions[:count]
        return columns_taken_anew(replace(table(), columns=now[-1].columns, versions=now))

    assert [anew(count) for count in (1, 2)] == [None, None], "what is gone is missed, not taken for something else"
    # Snapshot 2 has no such column, so whatever was measured there isn't compared with it.
    assert [anew(count) for count in (3, 4)] == [versions[1], versions[1]]
    waiting = (version(1, old), version(None, new))
    assert columns_taken_anew(replace(table(), columns=(new,), versions=waiting)) == waiting[1]
