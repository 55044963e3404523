"""Does what a query yields fit the table it goes to?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from retcon.core.evolution import AddColumn, DropColumn, Repartition, WidenColumn
from retcon.core.models import UNSLICED, Slicing, Strategy
from retcon.core.schemas import (
    carried_properties,
    is_comparable,
    opened_changes,
    planned_changes,
    repartitioned,
    require_aligned,
    require_carried_by_name,
    require_time_columns,
)
from retcon.core.slices import Buckets, Grain
from retcon.core.tables import Column, SchemaVersion
from retcon.errors import Refused
from tests.core.examples import a_model, an_input, facts

COLUMNS = [("d", "date"), ("currency", "string"), ("revenue", "decimal(18,2)")]
TABLE = facts("mart.m", COLUMNS)
MODEL = a_model("mart.m", "raw.s")


def yields(*columns: tuple[str, str]) -> list[Column]:
    return [Column(name=name, type=kind) for name, kind in columns]


def test_a_table_that_is_not_there_yet_takes_anything() -> None:
    assert planned_changes(MODEL, None, ("whatever",)) == ()


def test_a_table_cut_by_the_slice_with_the_columns_of_the_query_fits() -> None:
    require_aligned(a_model("mart.m", "raw.s", by="D"), TABLE)
    assert planned_changes(MODEL, TABLE, ("REVENUE", "d", "Currency")) == ()
    assert planned_changes(MODEL, TABLE, None) == ()


@pytest.mark.parametrize(
    ("by", "found"),
    [((), "not at all"), ((("d", "month"),), "month(d)"),
     ((("d", "identity"), ("currency", "identity")), "identity(currency)"),
     ((("currency", "identity"),), "identity(currency)")],
)  # fmt: skip
def test_a_table_that_is_cut_otherwise_is_refused_with_how_it_is_cut(
    by: tuple[tuple[str, str], ...], found: str
) -> None:
    with pytest.raises(Refused, match="is partitioned by") as refused:
        require_aligned(MODEL, facts("mart.m", COLUMNS, by=by))
    assert found in refused.value.message
    assert "sliced by d" in refused.value.message
    assert "`strategy: full`" in refused.value.next
    with pytest.raises(Refused, match="is partitioned by"):
        repartitioned(MODEL, facts("mart.m", COLUMNS, by=by))


def test_with_strategy_full_a_table_that_is_cut_otherwise_is_cut_anew() -> None:
    full = replace(MODEL, strategy=Strategy.FULL)
    assert repartitioned(full, TABLE) == ()
    months = facts("mart.m", COLUMNS, by=(("d", "month"),))
    assert repartitioned(full, months) == (Repartition(partitioning="month(d)", to="day(d)"),)
    # What is cut finer than the slices is as good.
    assert repartitioned(replace(full, slicing=Slicing(by="d", every=Grain.YEAR)), months) == ()
    texts = facts("mart.m", [("d", "string")])
    assert repartitioned(full, texts) == (Repartition(partitioning="identity(d)", to="day(d)"),)
    entities = replace(full, slicing=Slicing(by="currency", every=Buckets(4)))
    assert repartitioned(entities, facts("mart.m", COLUMNS, by=())) == (
        Repartition(partitioning="not at all", to="bucket(4, currency)"),
    )


def test_two_tables_are_compared_where_one_column_tells_the_slices_of_both() -> None:
    assert is_comparable(MODEL, TABLE, facts("mart.m", [("D", "DATE")]))
    assert not is_comparable(MODEL, facts("mart.m", [("d", "timestamp")]), TABLE)
    assert not is_comparable(MODEL, facts("mart.m", [("day", "date")]), TABLE)
    assert is_comparable(replace(MODEL, slicing=UNSLICED), facts("mart.m", [("x", "int")]), TABLE)


def test_a_table_passes_its_properties_on_but_for_its_own_and_those_of_columns_that_are_gone() -> None:
    kept = {"write.parquet.compression-codec": "gzip", "write.metadata.metrics.column.D": "full", "mine": "yes"}
    gone = {
        "retcon.made_by": "r1",
        "write.data.path": "s3://old",
        "owner": "ann",
        "comment": "old",
        "write.metadata.metrics.column.tax": "none",
    }
    assert carried_properties(replace(TABLE, properties={**kept, **gone}), ["d", "revenue"]) == kept


def test_what_goes_away_must_have_been_planned_too() -> None:
    full = replace(MODEL, strategy=Strategy.FULL)
    planned = (DropColumn(column="currency", type="string"),)
    output = yields(("d", "date"), ("revenue", "decimal(18,2)"))
    assert opened_changes(full, TABLE, output, planned) == planned
    with pytest.raises(Refused, match="the plan doesn't say so"):
        opened_changes(full, TABLE, output, ())


def test_planning_knows_names_and_the_types_that_the_model_declares() -> None:
    assert planned_changes(MODEL, TABLE, ("d", "currency", "revenue", "tax")) == (AddColumn(column="tax", type=None),)
    declared = a_model("mart.m", "raw.s", columns=(*COLUMNS[:2], ("revenue", "decimal(38,2)"), ("tax", "int")))
    assert planned_changes(declared, TABLE, None) == (
        WidenColumn(column="revenue", type="decimal(18,2)", to="decimal(38,2)"),
        AddColumn(column="tax", type="int"),
    )
    with pytest.raises(Refused, match="the table has revenue"):
        planned_changes(MODEL, TABLE, ("d", "currency"))


def test_the_same_types_in_any_case_and_order_pass() -> None:
    output = yields(("Revenue", "decimal(18, 2)"), ("D", "date"), ("CURRENCY", "STRING"))
    assert opened_changes(MODEL, TABLE, output, ()) == ()
    assert opened_changes(MODEL, None, yields(("d", "date"), ("x", "int")), ()) == ()


def test_a_new_column_is_made_with_sparks_type_if_the_plan_said_so() -> None:
    output = yields(*COLUMNS, ("tax", "int"))
    planned = (AddColumn(column="tax", type=None),)
    assert opened_changes(MODEL, TABLE, output, planned) == (AddColumn(column="tax", type="int"),)
    with pytest.raises(Refused, match="new column tax"):
        opened_changes(MODEL, TABLE, output, ())


@pytest.mark.parametrize(
    ("declared", "found"),
    [("long", "bigint"), ("INTEGER", "int"), ("dec(10, 2)", "decimal(10,2)"), ("numeric(10,2)", "decimal(10,2)"),
     ("decimal", "decimal(10,0)"), ("decimal(12)", "decimal(12,0)"), ("array<long>", "array<bigint>"),
     ("struct<long: real, b: array<integer>>", "struct<long:float,b:array<int>>"), ("timestamp_ltz", "timestamp"),
     ("map<string, dec>", "map<string,decimal(10,0)>")],
)  # fmt: skip
def test_types_may_be_declared_by_their_other_names(declared: str, found: str) -> None:
    model = a_model("mart.m", "raw.s", columns=(("d", "date"), ("x", declared)))
    opened_changes(model, None, yields(("d", "date"), ("x", found)), ())


@pytest.mark.parametrize(
    ("declared", "found"),
    [("bigint", "int"), ("decimal(10,2)", "decimal(10,3)"), ("timestamp", "timestamp_ntz"), ("string", "binary"),
     ("array<int>", "array<bigint>"), ("struct<long:int>", "struct<bigint:int>"), ("decimal(12)", "decimal(10,0)")],
)  # fmt: skip
def test_a_type_other_than_declared_is_refused_with_the_column_and_both_types(declared: str, found: str) -> None:
    model = a_model("mart.m", "raw.s", columns=(("d", "date"), ("x", declared)))
    with pytest.raises(Refused) as refused:
        opened_changes(model, None, yields(("d", "date"), ("x", found)), ())
    assert refused.value.message == f"mart.m.x: the query yields {found}, `columns` says {declared}"


@pytest.mark.parametrize(("by", "what"), [("bigint", "is bigint"), ("string", "is string"), (None, "isn't there")])
def test_the_slice_column_must_be_a_time_of_the_output(by: str | None, what: str) -> None:
    with pytest.raises(Refused, match=f"slices go by d, which {what}") as refused:
        opened_changes(MODEL, None, yields(("x", "int"), *([("d", by)] if by else [])), ())
    assert "AS d" in refused.value.next


def test_declared_columns_are_all_columns() -> None:
    model = a_model("mart.m", "raw.s", columns=(("d", "date"), ("x", "int")))
    with pytest.raises(Refused, match="yields y, which `columns` doesn't list"):
        opened_changes(model, None, yields(("d", "date"), ("x", "int"), ("y", "int")), ())
    with pytest.raises(Refused, match="says x, which the query doesn't yield"):
        opened_changes(model, None, yields(("d", "date")), ())


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
def test_a_time_column_is_a_date_or_a_timestamp(kind: str) -> None:
    require_time_columns(MODEL, {"raw.s": facts("raw.s", [("D", kind)])})


@pytest.mark.parametrize("kind", ["string", "int", "bigint", "struct<a:date>"])
def test_a_time_column_of_another_type_is_refused(kind: str) -> None:
    with pytest.raises(Refused, match=r"raw\.s\.d is .*, and a time column is a date or a timestamp"):
        require_time_columns(MODEL, {"raw.s": facts("raw.s", [("d", kind)])})


def test_tables_that_are_read_whole_or_are_not_there_yet_need_no_time_column() -> None:
    require_time_columns(a_model("mart.m", an_input("raw.s", None)), {"raw.s": facts("raw.s", [("x", "int")])})
    require_time_columns(MODEL, {})


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (("d", "tier"), "segment is tier now"),
        (("d", "segment"), "segment was dropped and added anew"),
    ],
)
def test_rows_that_stay_are_refused_where_their_columns_have_other_names_since(now: tuple[str, str], told: str) -> None:
    old = (Column(name="d", type="date", id=1), Column(name="segment", type="string", id=2))
    new = (old[0], Column(name=now[1], type="string", id=2 if now[1] == "tier" else 3))
    then = SchemaVersion(snapshot_id=7, at=None, run=None, columns=old)
    since = SchemaVersion(snapshot_id=None, at=None, run=None, columns=new)
    table = replace(TABLE, columns=new, versions=(then, since))
    require_carried_by_name(MODEL, table, is_keyed=False)
    with pytest.raises(Refused, match=told):
        require_carried_by_name(MODEL, table, is_keyed=True)
    with pytest.raises(Refused, match=told):
        require_carried_by_name(replace(MODEL, strategy=Strategy.MERGE), table, is_keyed=False)
    written = replace(table, versions=(then, replace(since, snapshot_id=8)))
    require_carried_by_name(MODEL, written, is_keyed=True)
