"""Does what a query yields fit the table it goes to?"""

from __future__ import annotations

import pytest

from retcon.core.schemas import require_same_names, require_same_types, require_table_fits, require_time_columns
from retcon.core.tables import Column
from retcon.errors import Refused
from tests.core.examples import a_model, an_input, facts

COLUMNS = [("d", "date"), ("currency", "string"), ("revenue", "decimal(18,2)")]
TABLE = facts("mart.m", COLUMNS)
MODEL = a_model("mart.m", "raw.s")


def yields(*columns: tuple[str, str]) -> list[Column]:
    return [Column(name=name, type=kind) for name, kind in columns]


def test_a_table_that_is_not_there_yet_fits_anything() -> None:
    require_table_fits(MODEL, None, ("whatever",))


def test_a_table_cut_by_the_slice_with_the_columns_of_the_query_fits() -> None:
    require_table_fits(MODEL, TABLE, ("REVENUE", "d", "Currency"))
    require_table_fits(a_model("mart.m", "raw.s", by="D"), TABLE, None)


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
        require_table_fits(MODEL, facts("mart.m", COLUMNS, by=by), None)
    assert found in refused.value.message
    assert "sliced by d" in refused.value.message
    assert refused.value.next


@pytest.mark.parametrize(
    ("output", "said"),
    [(("d", "currency", "revenue", "tax"), "the query yields tax, which the table doesn't have"),
     (("d", "currency"), "the table has revenue, which the query doesn't yield"),
     (("d", "Currency", "revenu"), "the query yields revenu, which the table doesn't have; the table has revenue")],
)  # fmt: skip
def test_names_that_differ_are_named_from_both_sides(output: tuple[str, ...], said: str) -> None:
    for check in (require_table_fits, require_same_names):
        with pytest.raises(Refused) as refused:
            check(MODEL, TABLE, output)
        assert said in refused.value.message


def test_the_same_types_in_any_case_and_order_pass() -> None:
    require_same_types(MODEL, TABLE, yields(("Revenue", "decimal(18, 2)"), ("D", "date"), ("CURRENCY", "STRING")))
    require_same_types(MODEL, None, yields(("d", "date"), ("x", "int")))


@pytest.mark.parametrize(
    ("declared", "found"),
    [("long", "bigint"), ("INTEGER", "int"), ("dec(10, 2)", "decimal(10,2)"), ("numeric(10,2)", "decimal(10,2)"),
     ("decimal", "decimal(10,0)"), ("decimal(12)", "decimal(12,0)"), ("array<long>", "array<bigint>"),
     ("struct<long: real, b: array<integer>>", "struct<long:float,b:array<int>>"), ("timestamp_ltz", "timestamp"),
     ("map<string, dec>", "map<string,decimal(10,0)>")],
)  # fmt: skip
def test_types_may_be_declared_by_their_other_names(declared: str, found: str) -> None:
    model = a_model("mart.m", "raw.s", columns=(("d", "date"), ("x", declared)))
    require_same_types(model, None, yields(("d", "date"), ("x", found)))


@pytest.mark.parametrize(
    ("declared", "found"),
    [("bigint", "int"), ("decimal(10,2)", "decimal(10,3)"), ("timestamp", "timestamp_ntz"), ("string", "binary"),
     ("array<int>", "array<bigint>"), ("struct<long:int>", "struct<bigint:int>"), ("decimal(12)", "decimal(10,0)")],
)  # fmt: skip
def test_a_type_that_differs_is_refused_with_the_column_and_both_types(declared: str, found: str) -> None:
    output = yields(("d", "date"), ("x", found))
    model = a_model("mart.m", "raw.s", columns=(("d", "date"), ("x", declared)))
    for tried, table, origin in (
        (model, None, "`columns` says"),
        (MODEL, facts("mart.m", [("d", "date"), ("x", declared)]), "the table has"),
    ):
        with pytest.raises(Refused) as refused:
            require_same_types(tried, table, output)
        assert refused.value.message == f"mart.m.x: the query yields {found}, {origin} {declared}"


@pytest.mark.parametrize(("by", "what"), [("bigint", "is bigint"), ("string", "is string"), (None, "isn't there")])
def test_the_slice_column_must_be_a_time_of_the_output(by: str | None, what: str) -> None:
    with pytest.raises(Refused, match=f"slices go by d, which {what}") as refused:
        require_same_types(MODEL, None, yields(("x", "int"), *([("d", by)] if by else [])))
    assert "AS d" in refused.value.next


def test_declared_columns_are_all_columns() -> None:
    model = a_model("mart.m", "raw.s", columns=(("d", "date"), ("x", "int")))
    with pytest.raises(Refused, match="yields y, which `columns` doesn't list"):
        require_same_types(model, None, yields(("d", "date"), ("x", "int"), ("y", "int")))
    with pytest.raises(Refused, match="says x, which the query doesn't yield"):
        require_same_types(model, None, yields(("d", "date")))


def test_a_column_of_the_query_that_the_table_lacks_is_refused_by_type_checking_too() -> None:
    with pytest.raises(Refused, match="yields tax"):
        require_same_types(MODEL, TABLE, yields(*COLUMNS, ("tax", "int")))
    with pytest.raises(Refused, match="has revenue, which the query doesn't yield"):
        require_same_types(MODEL, TABLE, yields(*COLUMNS[:2]))


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
