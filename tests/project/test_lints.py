"""What a query may not hold: results that vary, parameters nobody binds, columns without a name of their own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from retcon.core.models import Input, Slicing
from retcon.project.queries import SqlProblem, read_query

ORDERS = Input(name="raw.orders", table="raw.orders", time="order_date")


def problems_of(sql: str, *, may_vary: bool = False, params: Sequence[str] = ()) -> tuple[SqlProblem, ...]:
    return read_query(
        sql,
        model="mart.m",
        inputs=(ORDERS,),
        slicing=Slicing(by="order_date"),
        may_vary=may_vary,
        params=params,
    ).problems


def messages_of(sql: str, *, may_vary: bool = False, params: Sequence[str] = ()) -> list[str]:
    return [problem.message for problem in problems_of(sql, may_vary=may_vary, params=params)]


CLOCKS = [
    "current_date", "current_date()", "CURRENT_TIMESTAMP", "current_timestamp()", "now()", "curdate()",
    "localtimestamp", "localtimestamp()", "current_time()", "unix_timestamp()", "DATE 'today'", "TIMESTAMP 'now'",
    "date_sub(now(), 1)",
]  # fmt: skip


@pytest.mark.parametrize("expression", CLOCKS)
def test_the_clock_is_refused_and_the_bound_moments_offered(expression: str) -> None:
    (problem,) = problems_of(f"SELECT order_date,\n {expression} AS x FROM raw.orders")
    assert problem.message.endswith("reads the clock")
    assert problem.line == 2
    assert "`:run_ts`" in problem.remedy
    assert "`:start_date`" in problem.remedy


def test_a_clock_without_arguments_is_told_by_its_own_name() -> None:
    assert messages_of("SELECT order_date, unix_timestamp() AS x FROM raw.orders") == [
        "unix_timestamp() reads the clock"
    ]


@pytest.mark.parametrize(
    "expression",
    ["unix_timestamp(x)", "unix_timestamp(x, 'yyyy')", "DATE '2024-01-01'", "'now'", "o.now", ":run_ts"],
)
def test_what_only_looks_like_a_clock_is_fine(expression: str) -> None:
    assert messages_of(f"SELECT order_date, {expression} AS x FROM raw.orders o") == []


@pytest.mark.parametrize(
    "expression",
    [
        "rand()", "rand(42)", "RANDOM()", "randn()", "uuid()", "shuffle(x)", "monotonically_increasing_id()",
        "spark_partition_id()", "input_file_name()", "randstr(3)", "uniform(1, 2)", "current_user()", "session_user()",
        "version()", "reflect('java.util.UUID', 'randomUUID')", "java_method('java.util.UUID', 'randomUUID')",
        "current_database()", "coalesce(x, rand())",
    ],
)  # fmt: skip
def test_expressions_that_vary_are_refused(expression: str) -> None:
    (message,) = messages_of(f"SELECT order_date, {expression} AS x FROM raw.orders")
    assert "each time" in message or "depends on" in message


@pytest.mark.parametrize("place", ["WHERE rand() < 0.1", "ORDER BY rand()", "WHERE x IN (SELECT rand() AS y)"])
def test_they_are_refused_wherever_they_stand(place: str) -> None:
    assert messages_of(f"SELECT order_date FROM raw.orders {place}") == ["rand() gives another result each time"]


@pytest.mark.parametrize(
    "expression",
    [
        "first(x)", "last(x)", "first_value(x)", "last_value(x)", "any_value(x)", "first(x, true)",
        "first(x) IGNORE NULLS", "first(x) FILTER (WHERE y)", "collect_list(x)", "collect_set(x)", "array_agg(x)",
        "listagg(x, ',')", "string_agg(x)", "element_at(collect_list(x), 1)",
    ],
)  # fmt: skip
def test_aggregates_that_take_rows_as_they_come_are_refused(expression: str) -> None:
    (message,) = messages_of(f"SELECT order_date, {expression} AS x FROM raw.orders GROUP BY order_date")
    assert message.endswith("takes rows as they come")


@pytest.mark.parametrize(
    "expression",
    [
        "max_by(x, y)", "min_by(x, y)", "min(x)", "sort_array(collect_list(x))", "array_sort(collect_set(x))",
        "size(collect_set(x))", "array_join(sort_array(collect_list(x)), ',')", "listagg(x) WITHIN GROUP (ORDER BY x)",
        "approx_count_distinct(x)", "percentile(x, 0.5)",
    ],
)  # fmt: skip
def test_aggregates_with_an_order_of_their_own_are_fine(expression: str) -> None:
    assert messages_of(f"SELECT order_date, {expression} AS x FROM raw.orders GROUP BY order_date") == []


@pytest.mark.parametrize(
    "window",
    [
        "row_number() OVER (PARTITION BY order_date)",
        "rank() OVER (PARTITION BY order_date)",
        "first(x) OVER (PARTITION BY order_date)",
        "last_value(x) IGNORE NULLS OVER (PARTITION BY order_date)",
        "lag(x) OVER (PARTITION BY order_date)",
        "collect_list(x) OVER (PARTITION BY order_date)",
        "row_number() OVER w",
        "sum(x) OVER (PARTITION BY order_date ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    ],
)
def test_windows_that_need_an_order_are_refused_without_one(window: str) -> None:
    (message,) = messages_of(f"SELECT order_date, {window} AS x FROM raw.orders WINDOW w AS (PARTITION BY order_date)")
    assert "without ORDER BY takes rows as they come" in message


@pytest.mark.parametrize(
    "window",
    [
        "row_number() OVER (PARTITION BY order_date ORDER BY x)",
        "first(x) OVER (PARTITION BY order_date ORDER BY x)",
        "row_number() OVER w",
        "row_number() OVER (w ORDER BY x)",
        "sum(x) OVER (PARTITION BY order_date)",
        "sum(x) OVER (PARTITION BY order_date ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
    ],
)
def test_windows_with_an_order_or_no_need_of_one_are_fine(window: str) -> None:
    sql = f"SELECT order_date, {window} AS x FROM raw.orders WINDOW w AS (PARTITION BY order_date ORDER BY y)"
    assert messages_of(sql) == []


@pytest.mark.parametrize(
    ("sql", "is_refused"),
    [
        ("SELECT order_date FROM raw.orders LIMIT 3", True),
        ("SELECT order_date FROM raw.orders ORDER BY order_date LIMIT 3", False),
        ("SELECT order_date FROM raw.orders SORT BY order_date LIMIT 3", True),
        ("SELECT order_date FROM raw.orders OFFSET 3", True),
        ("SELECT order_date FROM raw.orders LIMIT ALL", False),
        ("SELECT order_date FROM raw.orders FETCH FIRST 3 ROWS ONLY", True),
        ("SELECT order_date, lag(x, 1) OVER (PARTITION BY order_date ORDER BY y) AS z FROM raw.orders", False),
        ("SELECT order_date FROM (SELECT * FROM raw.orders LIMIT 3)", True),
        ("(SELECT order_date FROM raw.orders) LIMIT 3", True),
        ("SELECT 1 AS order_date WHERE EXISTS (SELECT 1 FROM raw.orders LIMIT 1)", False),
    ],
)
def test_a_limit_needs_an_order(sql: str, is_refused: bool) -> None:
    assert ("LIMIT without ORDER BY takes rows as they come" in messages_of(sql)) is is_refused


def test_a_sample_needs_a_seed() -> None:
    assert messages_of("SELECT order_date FROM raw.orders TABLESAMPLE (10 PERCENT)") == [
        "TABLESAMPLE draws other rows each time"
    ]
    assert messages_of("SELECT order_date FROM raw.orders TABLESAMPLE (10 PERCENT) REPEATABLE (1)") == []


def test_a_function_is_called_as_the_author_called_it() -> None:
    sql = "SELECT order_date, Collect_Set(x) AS x FROM raw.orders GROUP BY order_date"
    assert messages_of(sql) == ["collect_set() takes rows as they come"]


def test_a_model_that_may_vary_is_left_alone() -> None:
    sql = "SELECT order_date, rand() AS r, now() AS n, first(x) AS f FROM raw.orders GROUP BY order_date LIMIT 3"
    assert len(messages_of(sql)) == 4
    assert messages_of(sql, may_vary=True) == []


# parameters


@pytest.mark.parametrize("name", ["start_date", "end_date", "start_ts", "end_ts", "run_ts", "source"])
def test_parameters_that_are_bound_are_fine(name: str) -> None:
    assert messages_of(f"SELECT order_date, :{name} AS x FROM raw.orders", params=["source"]) == []


def test_the_parameters_of_a_query_are_listed() -> None:
    read = read_query(
        "SELECT order_date FROM raw.orders WHERE order_date >= :start_date AND x = :source AND y = ':no'",
        model="mart.m",
        inputs=(ORDERS,),
        slicing=Slicing(by="order_date"),
        params=["source"],
    )
    assert read.query.parameters == {"start_date", "source"}


def test_an_unknown_parameter_is_refused_with_the_nearest_one() -> None:
    (problem,) = problems_of("SELECT order_date\nFROM raw.orders\nWHERE order_date >= :startdate")
    assert problem == SqlProblem(message="nothing is bound to `:startdate`", line=3, remedy="did you mean :start_date?")


def test_a_parameter_far_from_any_known_one_is_to_be_declared() -> None:
    (problem,) = problems_of("SELECT order_date FROM raw.orders WHERE x = :tenant")
    assert problem.remedy == "declare it under `params` in retcon.yaml"


@pytest.mark.parametrize("placeholder", ["?", "@x", "x:y"])
def test_other_kinds_of_parameters_are_refused(placeholder: str) -> None:
    assert messages_of(f"SELECT order_date FROM raw.orders WHERE {placeholder} = 1") != []


# the output


@pytest.mark.parametrize("expression", ["a + 1", "count(*)", "'x'", "cast(x AS date)", "(SELECT 1 AS y)", "a[0]"])
def test_a_computed_column_needs_a_name(expression: str) -> None:
    (problem,) = problems_of(f"SELECT order_date,\n  {expression}\nFROM raw.orders GROUP BY ALL")
    assert problem.message.startswith("a column of the output has no name")
    assert problem.line == 2
    assert "give it a name" in problem.remedy


def test_only_the_outermost_select_must_name_its_columns() -> None:
    sql = "SELECT order_date FROM raw.orders WHERE x IN (SELECT 1 + 1)"
    assert messages_of(sql) == []
    assert messages_of("SELECT order_date, 1 AS x FROM raw.orders UNION ALL SELECT DATE '2020-01-01', 2") == []


@pytest.mark.parametrize("columns", ["order_date, x, x", "order_date, o.x, y AS X", "*, x, x"])
def test_a_name_stands_once_in_the_output(columns: str) -> None:
    (message,) = messages_of(f"SELECT {columns} FROM raw.orders o")
    assert message == "the output has 2 columns `x`"


def test_the_slice_column_must_be_returned() -> None:
    (problem,) = problems_of("SELECT o.orderdate, x FROM raw.orders o")
    assert problem.message == "the query doesn't return the slice column `order_date`"
    assert problem.remedy == "did you mean orderdate?"


@pytest.mark.parametrize("columns", ["*", "ORDER_DATE", "o.order_date", "x AS order_date"])
def test_a_slice_column_that_is_or_may_be_returned_is_fine(columns: str) -> None:
    assert messages_of(f"SELECT {columns} FROM raw.orders o") == []
