"""What retcon reads out of a model's SQL: references, columns, parameters, the normalised text, metrics."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from retcon.core.gates import Metric
from retcon.core.models import Input, Slicing
from retcon.core.queries import Query, patched
from retcon.project.queries import (
    ReadQuery,
    SqlProblem,
    column_problems,
    output_columns,
    passed_on,
    read_metric,
    read_query,
)

ORDERS = Input(name="raw.orders", table="raw.orders", time="order_date")
RATES = Input(name="raw.fx_rates", table="raw.fx_rates", time="rate_date")
CUSTOMERS = Input(name="raw.customers", table="raw.customers")
REVENUE = """SELECT o.order_date, o.currency, sum(o.amount * r.rate) AS revenue_usd
FROM raw.orders o JOIN raw.fx_rates r ON r.rate_date = o.order_date AND r.currency = o.currency
GROUP BY o.order_date, o.currency
"""


def read(sql: str, *inputs: Input, by: str = "order_date", params: Sequence[str] = ()) -> ReadQuery:
    return read_query(sql, model="mart.m", inputs=inputs or (ORDERS,), slicing=Slicing(by=by), params=params)


def only_problem(sql: str, *inputs: Input, by: str = "order_date") -> SqlProblem:
    problems = read(sql, *inputs, by=by).problems
    assert len(problems) == 1, problems
    return problems[0]


def names_in(query: Query) -> list[str]:
    return [query.text[reference.start : reference.end] for reference in query.references]


def test_the_designs_model_reads_without_objection() -> None:
    found = read(REVENUE, ORDERS, RATES)
    assert found.problems == ()
    assert found.batching.is_sliceable
    assert found.query.columns == ("order_date", "currency", "revenue_usd")
    assert names_in(found.query) == ["raw.orders", "raw.fx_rates"]
    assert [reference.input for reference in found.query.references] == ["raw.orders", "raw.fx_rates"]


# references


def test_a_reference_without_alias_gets_its_last_name_as_alias() -> None:
    query = read("SELECT orders.order_date FROM raw.orders WHERE true").query
    assert patched(query, {"raw.orders": "scoped_1"}) == (
        "SELECT orders.order_date FROM `scoped_1` AS `orders` WHERE true"
    )


def test_an_alias_goes_after_a_sample_and_before_a_pivot() -> None:
    sampled = read("SELECT order_date FROM raw.orders TABLESAMPLE (10 PERCENT) REPEATABLE (3) WHERE true").query
    assert patched(sampled, {"raw.orders": "v"}) == (
        "SELECT order_date FROM `v` TABLESAMPLE (10 PERCENT) REPEATABLE (3) AS `orders` WHERE true"
    )
    pivoted = read("SELECT * FROM raw.orders PIVOT (sum(x) FOR y IN (1, 2))").query
    assert patched(pivoted, {"raw.orders": "v"}) == "SELECT * FROM `v` AS `orders` PIVOT (sum(x) FOR y IN (1, 2))"


def test_a_sample_with_an_alias_keeps_it() -> None:
    query = read("SELECT o.order_date FROM raw.orders TABLESAMPLE (5 PERCENT) REPEATABLE (1) AS o").query
    assert patched(query, {"raw.orders": "v"}).endswith("FROM `v` TABLESAMPLE (5 PERCENT) REPEATABLE (1) AS o")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT '🎉' AS party, order_date FROM `raw`.`orders` AS o",
        "SELECT order_date /* 日本 */ FROM raw /* x */ . /* y */ orders -- done",
        "SELECT order_date FROM (SELECT * FROM raw.orders) AS s",
        "WITH s AS (SELECT * FROM raw.orders) SELECT s.order_date FROM s",
        "WITH orders AS (SELECT * FROM raw.orders) SELECT orders.order_date FROM orders",
        "SELECT c.order_date FROM (SELECT current AS order_date FROM VALUES (1) AS t (current)) c "
        "WHERE EXISTS (SELECT 1 FROM raw.orders o WHERE o.order_date = c.order_date)",
        "SELECT /*+ BROADCAST(orders) */ order_date FROM raw.orders",
        "SELECT order_date, item FROM raw.orders o LATERAL VIEW explode(o.items) t AS item",
        "FROM raw.orders SELECT order_date",
        "SELECT order_date FROM (raw.orders)",
    ],
)
def test_a_table_is_found_wherever_it_stands(sql: str) -> None:
    found = read(sql)
    assert found.problems == ()
    (reference,) = found.query.references
    assert "orders" in found.query.text[reference.start : reference.end]
    assert "raw" in found.query.text[reference.start : reference.end]


def test_each_branch_of_a_union_is_found() -> None:
    other = Input(name="raw.returns", table="raw.returns", time="order_date")
    query = read("SELECT order_date FROM raw.orders UNION ALL SELECT order_date FROM raw.returns", ORDERS, other).query
    assert names_in(query) == ["raw.orders", "raw.returns"]


def test_a_common_table_expression_shadows_names_of_one_part_only() -> None:
    found = read("WITH raw AS (SELECT 1 AS x) SELECT order_date FROM raw.orders")
    assert names_in(found.query) == ["raw.orders"]


def test_common_table_expressions_see_the_earlier_ones_whatever_their_case() -> None:
    found = read("WITH First AS (SELECT * FROM raw.orders), s AS (SELECT * FROM FIRST) SELECT order_date FROM S")
    assert found.problems == ()
    assert names_in(found.query) == ["raw.orders"]


def test_a_common_table_expression_does_not_see_a_later_one() -> None:
    problem = only_problem("WITH a AS (SELECT * FROM b), b AS (SELECT * FROM raw.orders) SELECT order_date FROM b")
    assert problem.message == "`b` is read but not among the inputs"


def test_a_table_read_twice_is_picked_by_alias() -> None:
    inputs = (
        Input(name="o", table="raw.orders", time="order_date"),
        Input(name="p", table="raw.orders", time="order_date", lookback=7),
    )
    found = read(
        "SELECT o.order_date FROM raw.orders o LEFT JOIN raw.orders AS P "
        "ON p.order_date BETWEEN date_sub(o.order_date, 7) AND o.order_date",
        *inputs,
    )
    assert found.problems == ()
    assert found.batching.is_sliceable
    assert [reference.input for reference in found.query.references] == ["o", "p"]


def test_an_implicit_alias_picks_an_input_too() -> None:
    found = read("SELECT order_date FROM raw.orders", Input(name="orders", table="raw.orders", time="order_date"))
    assert [reference.input for reference in found.query.references] == ["orders"]


def test_a_table_read_twice_under_one_declaration_is_refused_with_the_alias_form() -> None:
    problem = only_problem("SELECT o.order_date FROM raw.orders o\nJOIN raw.orders p ON p.order_date = o.order_date")
    assert problem.line == 2
    assert "`raw.orders` is read 2 times" in problem.message
    assert "{o: {table: raw.orders, time: order_date}, p: {table: raw.orders, time: order_date}}" in problem.remedy


def test_an_alias_that_is_not_declared_is_refused() -> None:
    inputs = (Input(name="ord", table="raw.orders", time="order_date"),)
    problems = read("SELECT odr.order_date FROM raw.orders odr", *inputs).problems
    assert problems[0].message == "`raw.orders` is read as `odr`, which `inputs` doesn't declare"
    assert problems[0].remedy == "did you mean ord?"


def test_an_undeclared_input_is_refused_with_the_nearest_name_and_the_yaml() -> None:
    problem = only_problem("SELECT order_date\nFROM raw.order")
    assert problem.line == 2
    assert problem.message == "`raw.order` is read but not among the inputs"
    assert problem.remedy.startswith("did you mean raw.orders?")
    assert "inputs: {raw.order: {time: <its date column>}}" in problem.remedy


def test_names_of_tables_are_case_sensitive() -> None:
    assert only_problem("SELECT order_date FROM raw.Orders").message.startswith("`raw.Orders` is read but not")


def test_a_superfluous_input_is_refused() -> None:
    problem = only_problem("SELECT order_date FROM raw.orders", ORDERS, CUSTOMERS)
    assert problem.message == "the input `raw.customers` is declared but not read"


def test_a_model_that_reads_itself_says_so() -> None:
    joined = "raw.orders o FULL JOIN mart.m m ON m.id = o.id AND o.order_date = :start_date"
    sql = f"SELECT :start_date AS order_date FROM {joined}"
    me = Input(name="mart.m", table="mart.m", time="order_date", lookback=1, is_own=True)
    assert not read_query(sql, model="mart.m", inputs=(ORDERS, me), slicing=Slicing(by="order_date")).problems
    problem = only_problem(sql, ORDERS)
    assert problem.message == "the model reads itself, which `inputs` doesn't declare"
    assert "lookback: 1" in problem.remedy
    assert "order: sequential" in problem.remedy


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("parquet.`/data/x`", "is a path"),
        ("delta.`s3://bucket/x`", "is a path"),
        ("`raw.orders`", "is a name of one part"),
        ("IDENTIFIER('raw.orders')", "can't see what `identifier(…)` in FROM reads"),
        ("IDENTIFIER(:table)", "can't see what"),
        ("read_files('x')", "can't see what `read_files(…)` in FROM reads"),
        ("STREAM(raw.orders)", "can't see what"),
        ("raw.orders VERSION AS OF 12", "as of a version or time of its own"),
        ("raw.orders TIMESTAMP AS OF '2020-01-01'", "as of a version or time of its own"),
        ("raw.orders FOR SYSTEM_TIME AS OF '2020-01-01'", "as of a version or time of its own"),
        ("TABLE raw.orders", "`TABLE name` isn't supported"),
        ("TABLE orders", "`TABLE name` isn't supported"),
        ("raw.orders WITH (retcon = '1')", "options on a table"),
        ("raw.orders WITH (NOLOCK)", "options on a table"),
        ("raw.orders@v1", "isn't Spark SQL"),
        ("raw.orders |> WHERE true", "pipe syntax"),
        ("raw.orders.snapshots", "not among the inputs"),
    ],
)
def test_what_would_escape_the_scope_is_refused(table: str, message: str) -> None:
    problems = read(f"SELECT 1 AS x,\n order_date FROM {table}").problems
    assert any(message in problem.message and problem.line == 2 for problem in problems), problems


@pytest.mark.parametrize("function", ["range(3) r", "explode(array(1)) e", "VALUES (1) AS v (x)"])
def test_functions_in_from_that_read_no_table_are_fine(function: str) -> None:
    assert read(f"SELECT o.order_date FROM raw.orders o, {function}").problems == ()


def test_a_column_qualified_by_its_namespace_asks_for_an_alias() -> None:
    problem = only_problem("SELECT raw.orders.order_date FROM raw.orders")
    assert problem.message == "`raw.orders.order_date` names its table with the namespace"
    assert "`orders.order_date`" in problem.remedy


def test_a_field_of_a_struct_is_no_namespace() -> None:
    assert read("SELECT o.order_date, o.orders.x AS x, o.a.b.c.d AS y FROM raw.orders o").problems == ()


# the statement


@pytest.mark.parametrize("end", ["", ";", " ;\n", "; -- done\n", "\n;\n/* done */"])
def test_one_trailing_semicolon_is_stripped(end: str) -> None:
    found = read(f"SELECT order_date FROM raw.orders{end}")
    assert found.problems == ()
    assert ";" not in found.query.text
    assert names_in(found.query) == ["raw.orders"]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 1; SELECT 2", "several statements"),
        (";SELECT 1", "several statements"),
        ("SELECT 1;;", "several statements"),
        ("", "there is no query"),
        ("-- nothing", "there is no query"),
        ("INSERT INTO x SELECT 1", "INSERT isn't a query"),
        ("WITH a AS (SELECT 1 AS x) INSERT INTO y SELECT * FROM a", "INSERT isn't a query"),
        ("CREATE TABLE x AS SELECT 1", "CREATE isn't a query"),
        ("DROP TABLE raw.orders", "DROP isn't a query"),
        ("MERGE INTO x USING y ON true WHEN MATCHED THEN DELETE", "MERGE isn't a query"),
        ("EXPLAIN SELECT 1", "EXPLAIN isn't a query"),
        ("SHOW TABLES", "SHOW isn't a query"),
        ("SET x = 1", "SET isn't a query"),
    ],
)
def test_only_one_query_is_taken(sql: str, message: str) -> None:
    found = read(sql)
    assert [message in problem.message for problem in found.problems] == [True]
    assert not found.batching.is_sliceable


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        ("SELECT {{ cols }} FROM raw.orders", 1),
        ("{% if x %} SELECT 1 {% endif %}", 1),
        ("SELECT order_date\nFROM {{ ref('orders') }}", 2),
        ("SELECT order_date {# jinja #} FROM raw.orders", 1),
        ("SELECT order_date,\n'${env:SECRET}' AS x FROM raw.orders", 2),
    ],
)
def test_templating_is_refused(sql: str, line: int) -> None:
    problem = only_problem(sql)
    assert "is templating, and this is plain SQL" in problem.message
    assert problem.line == line


def test_braces_in_strings_and_comments_are_no_templating() -> None:
    assert read("SELECT order_date, '{{ x }}' AS y /* {{ }} {# #} */ FROM raw.orders -- {% %}\n").problems == ()


def test_a_comment_that_only_spark_would_continue_is_refused() -> None:
    assert "backslash" in only_problem("SELECT order_date -- one \\\n, x FROM raw.orders").message


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        ("SELECT order_date\nFROM raw.orders WHERE (", 2),
        ("SELECT order_date FROM (SELECT 1", 1),
        ("SELECT order_date\nFROM raw.orders GROUP order_date", 2),
        ("SELECT order_date,\n\n'abc FROM raw.orders", 3),
    ],
)
def test_sql_that_does_not_parse_is_refused_with_its_line(sql: str, line: int) -> None:
    problem = only_problem(sql)
    assert problem.line == line
    assert "\x1b" not in problem.message
    assert "class" not in problem.message


def test_a_query_nested_too_deeply_is_refused_not_crashed_on() -> None:
    sql = "SELECT order_date FROM (" * 500 + "SELECT order_date FROM raw.orders" + ") t" * 500
    assert only_problem(sql).message == "the query is nested too deeply to be read"


def test_queries_in_queries_take_no_time() -> None:
    inputs = [Input(name=f"o{n}", table="raw.orders", time="order_date") for n in range(30)]
    sql = "SELECT o0.order_date FROM raw.orders o0 WHERE true"
    for n in range(1, 30):
        sql += f" AND o{n - 1}.x IN (SELECT o{n}.x FROM raw.orders o{n} WHERE true"
    assert not read(sql + ")" * 29, *inputs).batching.is_sliceable


# the normalised text


@pytest.mark.parametrize(
    "edited",
    [
        "select o.order_date, 'a' as Label from raw.orders o where o.amount > 1",
        "SELECT o.order_date, -- the day\n  'a' AS Label\nFROM raw.orders o /* all */\nWHERE o.amount > 1;",
        "SELECT /*+ BROADCAST(o) */ o.order_date,'a' AS Label FROM raw.orders o WHERE o.amount>1",
    ],
)
def test_comments_layout_and_the_case_of_keywords_do_not_count(edited: str) -> None:
    plain = "SELECT o.order_date, 'a' AS Label FROM raw.orders o WHERE o.amount > 1"
    assert read(edited).normalised == read(plain).normalised


@pytest.mark.parametrize(
    "edited",
    [
        "SELECT o.order_date, 'A' AS label, sum(x) AS s, cast(y AS int) AS c FROM raw.orders o",
        "SELECT o.order_date, 'a ' AS label, sum(x) AS s, cast(y AS int) AS c FROM raw.orders o",
        "SELECT o.order_date, 'a' AS Label, sum(x) AS s, cast(y AS int) AS c FROM raw.orders o",
        "SELECT o.order_date, 'a' AS label, sum(X) AS s, cast(y AS int) AS c FROM raw.orders o",
        "SELECT o.order_date, 'a' AS label, avg(x) AS s, cast(y AS int) AS c FROM raw.orders o",
        "SELECT o.order_date, 'a' AS label, sum(x) AS s, try_cast(y AS int) AS c FROM raw.orders o",
        "SELECT o.order_date, 'a' AS label, sum(x) AS s, cast(y AS int) AS c FROM raw.orders o WHERE true",
    ],
)
def test_literals_identifiers_and_functions_count(edited: str) -> None:
    plain = "SELECT o.order_date, 'a' AS label, sum(x) AS s, cast(y AS int) AS c FROM raw.orders o"
    assert read(edited).normalised != read(plain).normalised


# columns


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT o.order_date, (o.x), o.a.b, o.a.b.c.d.e FROM raw.orders o", "order_date x b e"),
        ("SELECT * FROM raw.orders", None),
        ("SELECT order_date, o.* FROM raw.orders o", None),
        ("WITH s AS (SELECT order_date, x AS y FROM raw.orders) SELECT *, 1 AS z FROM s", "order_date y z"),
        ("SELECT s.* FROM (SELECT order_date, x FROM raw.orders) AS s (order_date, q)", "order_date q"),
        ("SELECT * EXCEPT (x) FROM (SELECT order_date, x, y FROM raw.orders)", "order_date y"),
        ("SELECT order_date, stack(2, a, b) AS (k, v) FROM raw.orders", "order_date k v"),
        ("SELECT order_date, 1 AS x FROM raw.orders UNION ALL SELECT order_date, 2 FROM raw.orders", "order_date x"),
        ("SELECT order_date, (SELECT 1 AS x) AS y FROM raw.orders", "order_date y"),
    ],
)
def test_the_output_columns_are_named_where_the_text_shows_them(sql: str, columns: str | None) -> None:
    assert read(sql).query.columns == (tuple(columns.split()) if columns else None)


KNOWN = {
    "raw.orders": ("order_id", "order_date", "amount", "currency"),
    "raw.fx_rates": ("rate_date", "currency", "rate"),
}


ALL_ORDERS = "order_id order_date amount currency"
JOINED = "currency order_id order_date amount rate_date rate"


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT * FROM raw.orders", ALL_ORDERS),
        ("SELECT r.*, o.x FROM raw.orders o JOIN raw.fx_rates r ON true", "rate_date currency rate x"),
        ("SELECT * FROM raw.orders o JOIN raw.fx_rates r USING (currency)", JOINED),
        ("SELECT * FROM raw.orders o NATURAL JOIN raw.fx_rates r", JOINED),
        ("SELECT * FROM raw.orders o LEFT SEMI JOIN raw.fx_rates r USING (currency)", ALL_ORDERS),
        ("SELECT * EXCEPT (amount) FROM raw.orders", "order_id order_date currency"),
        ("WITH s AS (SELECT * FROM raw.orders) SELECT * FROM s", ALL_ORDERS),
        ("SELECT * FROM raw.orders, raw.customers", None),
        ("SELECT * FROM raw.orders LATERAL VIEW explode(x) t", None),
        ("SELECT order_date FROM raw.customers", "order_date"),
    ],
)
def test_a_star_is_filled_in_from_known_columns(sql: str, columns: str | None) -> None:
    inputs = (ORDERS, RATES, CUSTOMERS)
    expected = tuple(columns.split()) if columns else None
    assert output_columns(read(sql, *inputs).query, inputs, KNOWN) == expected


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT order_date FROM raw.orders", ("raw.orders", "order_date")),
        ("SELECT r.rate_date AS order_date FROM raw.orders o, raw.fx_rates r", ("raw.fx_rates", "rate_date")),
        ("SELECT order_date FROM raw.orders JOIN raw.fx_rates ON true", None),
        ("SELECT order_date FROM (SELECT order_date FROM raw.orders)", None),
        ("WITH o AS (SELECT order_date FROM raw.orders) SELECT o.order_date FROM o", None),
        ("SELECT CAST(order_date AS DATE) AS order_date FROM raw.orders", None),
        ("SELECT order_date FROM raw.orders UNION ALL SELECT rate_date FROM raw.fx_rates", None),
        ("SELECT * FROM raw.orders", None),
        ("SELECT order_date FROM raw.orders LATERAL VIEW explode(x) t AS order_date", None),
    ],
)
def test_a_column_that_is_passed_on_is_known_where_the_text_shows_it(sql: str, found: tuple[str, str] | None) -> None:
    inputs = (ORDERS, RATES)
    assert passed_on(read(sql, *inputs).query, inputs, "ORDER_DATE") == found


def test_a_qualified_column_that_its_table_does_not_have_is_reported() -> None:
    query = read("SELECT o.order_date,\n  o.amont\nFROM raw.orders o").query
    (problem,) = column_problems(query, (ORDERS,), KNOWN)
    assert problem == SqlProblem(
        message="`o.amont`: raw.orders has no column `amont`", line=2, remedy="did you mean amount?"
    )


def test_a_correlated_column_is_checked_against_the_table_outside() -> None:
    sql = "SELECT o.order_date FROM raw.orders o WHERE EXISTS (SELECT 1 FROM raw.fx_rates r WHERE r.rate = o.rat)"
    query = read(sql).query
    (problem,) = column_problems(query, (ORDERS, RATES), KNOWN)
    assert problem.message == "`o.rat`: raw.orders has no column `rat`"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT O.ORDER_DATE FROM raw.orders o",
        "SELECT o.order_date, o.whatever.x FROM raw.orders o",
        "SELECT order_date, whatever FROM raw.orders",
        "SELECT c.whatever FROM raw.customers c",
        "SELECT s.y FROM (SELECT amount AS y FROM raw.orders) s",
        "WITH o AS (SELECT amount AS y FROM raw.orders) SELECT o.y FROM o",
        "SELECT t.item FROM raw.orders o LATERAL VIEW explode(o.amount) t AS item",
        "SELECT o.x FROM raw.orders AS o (x, y, z, w)",
        "SELECT o._file FROM raw.orders o",
        "SELECT p.`1` FROM raw.orders PIVOT (sum(amount) FOR currency IN (1)) p",
    ],
)
def test_columns_that_may_well_be_there_are_not_reported(sql: str) -> None:
    inputs = (ORDERS, RATES, CUSTOMERS)
    assert column_problems(read(sql, *inputs).query, inputs, KNOWN) == ()


def test_time_and_key_of_an_input_must_be_columns_of_its_table() -> None:
    declared = Input(name="o", table="raw.orders", time="orderdate", key="ORDER_ID")
    query = read("SELECT o.order_date FROM raw.orders o", declared).query
    (problem,) = column_problems(query, (declared,), KNOWN)
    assert problem.message == "`time` of the input `o`: raw.orders has no column `orderdate`"
    assert problem.remedy == "did you mean order_date?"


# metrics


@pytest.mark.parametrize(
    ("expression", "is_additive"),
    [
        ("sum(revenue_usd)", True),
        ("count(*)", True),
        ("count(x)", True),
        (" (sum(a * b)) ", True),
        ("sum(DISTINCT x)", False),
        ("count(DISTINCT x)", False),
        ("avg(x)", False),
        ("sum(x) / count(*)", False),
        ("max_by(x, y)", False),
        ("try_sum(x)", False),
        ("sum(x) FILTER (WHERE y > 0)", False),
        ("count_if(x = '{{')", False),
    ],
)
def test_a_metric_is_an_aggregate(expression: str, is_additive: bool) -> None:
    assert read_metric(expression) == Metric(expression=expression.strip(), is_additive=is_additive)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "is empty"),
        ("revenue", "isn't an aggregate"),
        ("abs(x)", "isn't an aggregate"),
        ("sum(x) + y", "takes `y` outside of an aggregate"),
        ("sum(max(x))", "an aggregate of an aggregate"),
        ("sum(x) AS y", "without a name"),
        ("sum(x), sum(y)", "must be one expression"),
        ("sum(x) FROM raw.orders", "must be one expression"),
        ("sum(x);", "must be one expression"),
        ("sum(x); DROP TABLE x", "can't be read"),
        ("sum(x)) FROM secrets --", "can't be read"),
        ("sum(x) --", "comment"),
        ("sum(x) /* y */", "comment"),
        ("(SELECT sum(x) FROM raw.orders)", "subquery"),
        ("sum(x) OVER ()", "window"),
        ("sum(x) > :y", "parameter"),
        ("sum(rand())", "varies"),
        ("first(x)", "varies"),
        ("sum(${x})", "can't be read"),
        ("sum(", "can't be read"),
        ("*", "without a name"),
    ],
)
def test_what_is_not_one_aggregate_is_no_metric(expression: str, message: str) -> None:
    with pytest.raises(ValueError) as error:
        read_metric(expression)
    assert message in str(error.value)
