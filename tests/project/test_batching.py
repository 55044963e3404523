"""Which queries may compute many slices in one job, and why the others may not."""

from __future__ import annotations

from datetime import timedelta
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.models import Input, Slicing
from retcon.core.slices import Grain
from retcon.project.queries import ReadQuery, read_query

ORDERS = Input(name="raw.orders", table="raw.orders", time="order_date")
RATES = Input(name="raw.rates", table="raw.rates", time="rate_date")
RETURNS = Input(name="raw.returns", table="raw.returns", time="order_date")
CUSTOMERS = Input(name="raw.customers", table="raw.customers")
EVERYTHING = (ORDERS, RATES, RETURNS, CUSTOMERS)


def read(sql: str, *inputs: Input, by: str = "order_date") -> ReadQuery:
    declared = inputs or tuple(i for i in EVERYTHING if i.table in sql)
    return read_query(sql, model="mart.m", inputs=declared, slicing=Slicing(by=by))


def reason_of(sql: str, *inputs: Input, by: str = "order_date") -> str:
    """The one reason why this runs slice by slice."""
    found = read(sql, *inputs, by=by)
    assert found.problems == ()
    assert len(found.batching.reasons) == 1, found.batching.reasons
    return found.batching.reasons[0]


def is_sliceable(sql: str, *inputs: Input, by: str = "order_date") -> bool:
    found = read(sql, *inputs, by=by)
    assert found.problems == ()
    return found.batching.is_sliceable


def test_the_authors_word_stands_against_the_reasons() -> None:
    sql = "SELECT order_date, sum(x) OVER () AS s FROM raw.orders"
    found = read_query(sql, model="mart.m", inputs=(ORDERS,), slicing=Slicing(by="order_date"), vouched=True)
    assert found.batching.reasons
    assert found.batching.is_sliceable


# the slice column


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM raw.orders",
        "SELECT ORDER_DATE, x FROM raw.orders",
        "SELECT o.order_date FROM raw.orders o ORDER BY x",
        "SELECT d AS order_date FROM (SELECT order_date AS d, x FROM raw.orders) WHERE x > 1",
        "WITH a AS (SELECT order_date AS d FROM raw.orders), b (order_date) AS (SELECT * FROM a) SELECT * FROM b",
        "SELECT t.order_date FROM (SELECT x, order_date FROM raw.orders) AS t (y, order_date)",
        "SELECT order_date, item FROM raw.orders LATERAL VIEW explode(items) t AS item",
        "SELECT order_date, explode(items) AS item FROM raw.orders",
        "SELECT * EXCEPT (x) FROM raw.orders",
        "SELECT o.* FROM raw.orders o, range(3)",
        "SELECT order_date, (SELECT max(y) FROM raw.customers) AS m FROM raw.orders",
    ],
)
def test_a_slice_column_that_comes_from_a_time_column_unchanged_is_followed(sql: str) -> None:
    assert is_sliceable(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT date_trunc('WEEK', order_date) AS order_date FROM raw.orders",
        "SELECT date_trunc(day, order_date) AS order_date FROM raw.orders",
        "SELECT to_date(order_date, 'yyyy') AS order_date FROM raw.orders",
        "SELECT date_add(order_date, 1) AS order_date FROM raw.orders",
        "SELECT shipped AS order_date FROM raw.orders",
        "SELECT coalesce(shipped, order_date) AS order_date FROM raw.orders",
        "SELECT order_date FROM raw.customers",
        "SELECT c.day AS order_date FROM raw.customers c CROSS JOIN raw.orders o",
        "SELECT * EXCEPT (order_date), shipped AS order_date FROM raw.orders",
        "SELECT * REPLACE (shipped AS order_date) FROM raw.orders",
        "SELECT o.s.order_date FROM raw.orders o",
        "SELECT DATE '2024-01-01' AS order_date FROM raw.orders",
        "SELECT t.order_date FROM (SELECT order_date, x FROM raw.orders) AS t (y, order_date)",
        "SELECT order_date FROM raw.orders AS o (order_date, x)",
    ],
)
def test_a_slice_column_that_does_not_is_a_reason(sql: str) -> None:
    assert reason_of(sql) == "the slice column order_date isn't, unchanged, the time column of a scoped input"


def test_a_column_equal_to_a_time_column_is_as_good() -> None:
    assert is_sliceable(
        "SELECT c.day, count(*) AS n FROM raw.customers c JOIN raw.orders o ON o.order_date = c.day GROUP BY c.day",
        by="day",
    )
    assert is_sliceable("SELECT c.day FROM raw.orders o LEFT JOIN raw.customers c ON c.day = o.order_date", by="day")


def test_a_column_that_a_left_join_equates_is_not_equal_where_nothing_matches() -> None:
    lookahead = Input(name="raw.rates", table="raw.rates", time="rate_date", lookback=9, lookahead=9)
    sql = (
        "SELECT o.shipped AS order_date FROM raw.orders o "
        "LEFT JOIN raw.rates r ON r.rate_date = o.order_date AND r.rate_date = o.shipped"
    )
    assert not is_sliceable(sql, ORDERS, lookahead)


def test_an_ambiguous_column_proves_nothing() -> None:
    sql = "SELECT order_date FROM raw.orders o JOIN raw.returns r ON r.order_date = o.order_date"
    assert not is_sliceable(sql)


# GROUP BY


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT order_date, count(*) AS n FROM raw.orders GROUP BY order_date",
        "SELECT o.order_date, k, count(*) AS n FROM raw.orders o GROUP BY k, o.order_date HAVING count(*) > 1",
        "SELECT order_date, count(DISTINCT x) AS n FROM raw.orders GROUP BY 1",
        "SELECT order_date, k, count(*) AS n FROM raw.orders GROUP BY ALL",
        "SELECT order_date, k, count(*) AS n FROM raw.orders GROUP BY order_date, CUBE (k)",
        "SELECT order_date, k, count(*) AS n FROM raw.orders GROUP BY GROUPING SETS ((order_date, k), (order_date))",
        "SELECT order_date, k, count(*) AS n FROM raw.orders GROUP BY GROUPING SETS ((order_date, k), order_date)",
        "SELECT order_date, k, count(*) AS n FROM raw.orders GROUP BY order_date, GROUPING SETS ((k), ())",
        "SELECT order_date, k, count(*) AS n FROM raw.orders GROUP BY order_date, k GROUPING SETS ((order_date, k))",
        "SELECT order_date, sum(n) AS n FROM (SELECT order_date, 1 AS n FROM raw.orders GROUP BY 1, k) GROUP BY 1",
        "SELECT order_date FROM raw.orders CROSS JOIN (SELECT max(y) AS y FROM raw.customers)",
    ],
)
def test_a_grouping_that_carries_the_time_is_fine(sql: str) -> None:
    assert is_sliceable(sql)


def test_a_grouping_by_an_alias_is_followed() -> None:
    assert is_sliceable("SELECT order_date AS day, count(*) AS n FROM raw.orders GROUP BY day", by="day")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT max(order_date) AS order_date, k\nFROM raw.orders\nGROUP BY k",
        "SELECT date_trunc('MONTH', order_date) AS order_date\nFROM raw.orders\nGROUP BY 1",
        "SELECT month AS order_date\nFROM raw.orders\nGROUP BY month",
        "SELECT order_date\nFROM raw.orders\nGROUP BY ROLLUP (order_date, k)",
        "SELECT order_date\nFROM raw.orders\nGROUP BY order_date, k WITH ROLLUP",
        "SELECT order_date\nFROM raw.orders\nGROUP BY order_date, k WITH CUBE",
        "SELECT order_date\nFROM raw.orders\nGROUP BY GROUPING SETS ((order_date, k), (k))",
        "SELECT order_date\nFROM raw.orders\nGROUP BY order_date, k GROUPING SETS ((order_date, k), (k))",
    ],
)
def test_a_grouping_that_does_not_carry_the_time_is_a_reason(sql: str) -> None:
    assert reason_of(sql) == "GROUP BY at line 3 of the query doesn't carry order_date"


def test_group_by_all_groups_by_what_is_not_aggregated() -> None:
    sql = "SELECT max(order_date) AS order_date, k FROM raw.orders GROUP BY ALL"
    assert reason_of(sql) == "GROUP BY at line 1 of the query doesn't carry order_date"


def test_a_name_is_not_lineage() -> None:
    """The inner column is called like the slice column, but is another one."""
    sql = (
        "SELECT order_date, count(*) AS n FROM (SELECT shipped AS order_date, order_date AS d FROM raw.orders)\n"
        "GROUP BY order_date"
    )
    assert reason_of(sql) == "GROUP BY at line 2 of the query doesn't carry order_date"


def test_an_ordinal_behind_a_star_proves_nothing() -> None:
    sql = "SELECT o.*, o.order_date AS d FROM raw.orders o GROUP BY 1, 2"
    assert not is_sliceable(sql, by="d")


@pytest.mark.parametrize(
    ("aggregate", "name"), [("sum(x)", "sum"), ("max(order_date)", "max"), ("try_sum(x)", "try_sum")]
)
def test_an_aggregate_without_group_by_is_a_reason(aggregate: str, name: str) -> None:
    sql = f"SELECT o.order_date, t.s FROM raw.orders o,\n (SELECT {aggregate} AS s FROM raw.returns) t"
    assert reason_of(sql) == f"{name}() at line 2 of the query folds the rows of all slices"


# windows


@pytest.mark.parametrize(
    "window",
    [
        "row_number() OVER (PARTITION BY order_date, k ORDER BY x)",
        "sum(x) OVER (PARTITION BY o.order_date)",
        "lag(x) OVER w",
        "rank() OVER (w)",
        "sum(sum(x)) OVER (PARTITION BY order_date)",
    ],
)
def test_a_window_partitioned_by_the_time_is_fine(window: str) -> None:
    group = " GROUP BY order_date, k, x" if "sum(sum" in window else ""
    sql = f"SELECT order_date, {window} AS y FROM raw.orders o{group} WINDOW w AS (PARTITION BY order_date ORDER BY x)"
    assert is_sliceable(sql)


@pytest.mark.parametrize(
    ("window", "name"),
    [
        ("lag(x) OVER (PARTITION BY k ORDER BY order_date)", "lag"),
        ("sum(x) OVER ()", "sum"),
        ("sum(x) OVER (ORDER BY order_date)", "sum"),
        ("avg(x) OVER (PARTITION BY k ORDER BY order_date ROWS BETWEEN 6 PRECEDING AND CURRENT ROW)", "avg"),
        ("avg(x) OVER (ORDER BY order_date RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)", "avg"),
        ("sum(x) OVER (PARTITION BY date_trunc('MONTH', order_date))", "sum"),
        ("last(x) IGNORE NULLS OVER (PARTITION BY k ORDER BY order_date)", "last"),
        ("max(x) OVER w", "max"),
    ],
)
def test_a_window_that_is_not_is_a_reason(window: str, name: str) -> None:
    wide = Input(name="raw.orders", table="raw.orders", time="order_date", lookback=6)
    sql = f"SELECT order_date,\n {window} AS y FROM raw.orders WINDOW w AS (PARTITION BY k)"
    assert reason_of(sql, wide) == f"{name}() OVER (…) at line 2 of the query isn't partitioned by order_date"


def test_a_window_in_qualify_counts() -> None:
    sql = "SELECT order_date FROM raw.orders QUALIFY row_number() OVER (PARTITION BY k ORDER BY x) = 1"
    assert reason_of(sql).startswith("row_number() OVER (…)")


@pytest.mark.parametrize(
    ("frame", "lookback", "lookahead", "expected"),
    [
        ("INTERVAL 6 DAYS PRECEDING AND CURRENT ROW", 6, 0, True),
        ("6 PRECEDING AND CURRENT ROW", 6, 0, True),
        ("6 PRECEDING AND 1 PRECEDING", 6, 0, True),
        ("INTERVAL 6 DAYS PRECEDING AND CURRENT ROW", 5, 0, False),
        ("INTERVAL 1 WEEK PRECEDING AND INTERVAL 1 DAY FOLLOWING", 7, 1, True),
        ("INTERVAL 1 WEEK PRECEDING AND INTERVAL 1 DAY FOLLOWING", 7, 0, False),
        ("INTERVAL 1 MONTH PRECEDING AND CURRENT ROW", 99, 0, False),
    ],
)
def test_a_moving_average_over_days_is_fine_within_lookback(
    frame: str, lookback: int, lookahead: int, expected: bool
) -> None:
    wide = Input(name="raw.orders", table="raw.orders", time="order_date", lookback=lookback, lookahead=lookahead)
    window = f"avg(x) OVER (PARTITION BY k ORDER BY order_date RANGE BETWEEN {frame})"
    assert is_sliceable(f"SELECT order_date, {window} AS a FROM raw.orders", wide) is expected


def test_a_window_in_descending_order_looks_the_other_way() -> None:
    window = "sum(x) OVER (ORDER BY order_date DESC RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)"
    back = Input(name="raw.orders", table="raw.orders", time="order_date", lookback=2)
    ahead = Input(name="raw.orders", table="raw.orders", time="order_date", lookahead=2)
    sql = f"SELECT order_date, {window} AS s FROM raw.orders"
    assert not is_sliceable(sql, back)
    assert is_sliceable(sql, ahead)


# DISTINCT, set operations, LIMIT, samples


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT k, order_date FROM raw.orders",
        "SELECT order_date, x FROM raw.orders UNION ALL SELECT order_date, 2 FROM raw.returns",
        "SELECT order_date, x FROM raw.orders UNION SELECT order_date, x FROM raw.returns",
        "SELECT order_date, x FROM raw.orders UNION BY NAME SELECT x, order_date FROM raw.returns",
        "SELECT order_date, x FROM raw.orders EXCEPT SELECT order_date, x FROM raw.returns",
        "SELECT order_date, x FROM raw.orders INTERSECT ALL SELECT order_date, x FROM raw.returns",
        "SELECT order_date, x FROM raw.orders MINUS SELECT day, x FROM raw.customers",
        "SELECT day AS order_date, x FROM raw.customers INTERSECT SELECT order_date, x FROM raw.orders",
    ],
)
def test_rows_compared_with_their_time_are_fine(sql: str) -> None:
    assert is_sliceable(sql)


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT DISTINCT k, shipped AS order_date FROM raw.orders", "DISTINCT"),
        ("SELECT order_date, x FROM raw.orders UNION SELECT x, order_date FROM raw.returns", "UNION"),
        ("SELECT order_date, x FROM raw.orders UNION SELECT day, x FROM raw.customers", "UNION"),
        ("SELECT shipped AS order_date FROM raw.orders EXCEPT SELECT order_date FROM raw.returns", "EXCEPT"),
        ("SELECT shipped AS order_date FROM raw.orders INTERSECT SELECT order_date FROM raw.returns", "INTERSECT"),
    ],
)
def test_rows_compared_without_it_are_a_reason(sql: str, word: str) -> None:
    assert reason_of(sql) == f"{word} at line 1 of the query doesn't carry order_date"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT order_date FROM raw.orders UNION ALL SELECT day FROM raw.customers",
        "SELECT order_date, x FROM raw.orders UNION ALL SELECT shipped, x FROM raw.returns",
        "SELECT * FROM raw.orders UNION ALL SELECT * FROM raw.returns",
    ],
)
def test_a_union_all_with_rows_of_another_time_is_a_reason(sql: str) -> None:
    assert "the slice column order_date" in reason_of(sql)


@pytest.mark.parametrize(
    ("sql", "start"),
    [
        ("SELECT order_date FROM raw.orders ORDER BY x LIMIT 3", "LIMIT at line 1"),
        ("SELECT * FROM (SELECT * FROM raw.orders ORDER BY x LIMIT 3)", "LIMIT at line 1"),
        ("(SELECT order_date FROM raw.orders) ORDER BY x LIMIT 3", "LIMIT at line 1"),
        ("SELECT order_date FROM raw.orders UNION ALL SELECT order_date FROM raw.returns ORDER BY 1 LIMIT 3", "LIMIT"),
        ("SELECT order_date FROM raw.orders TABLESAMPLE (10 PERCENT) REPEATABLE (1)", "TABLESAMPLE"),
        ("SELECT order_date FROM raw.orders PIVOT (sum(x) FOR k IN (1, 2))", "PIVOT"),
        ("SELECT order_date FROM raw.orders UNPIVOT (x FOR y IN (a, b))", "PIVOT"),
        (
            "WITH RECURSIVE r AS (SELECT order_date FROM raw.orders UNION ALL SELECT order_date FROM r) "
            "SELECT * FROM r",
            "`r` at line 1 of the query reads itself",
        ),
    ],
)
def test_what_counts_rows_of_all_slices_is_a_reason(sql: str, start: str) -> None:
    assert reason_of(sql).startswith(start)


def test_whatever_is_done_with_an_input_read_whole_is_the_same_in_each_slice() -> None:
    assert is_sliceable(
        "WITH top AS (SELECT id, count(*) AS n, max(y) OVER () AS m FROM raw.customers GROUP BY id ORDER BY 1 LIMIT 3) "
        "SELECT o.order_date FROM raw.orders o JOIN top ON top.id = o.id WHERE o.id NOT IN (SELECT id FROM top)"
    )


# joins


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT o.order_date FROM raw.orders o JOIN raw.rates r ON r.rate_date = o.order_date AND r.k = o.k",
        "SELECT o.order_date FROM raw.orders o, raw.rates r WHERE (r.rate_date = o.order_date) AND r.k = o.k",
        "SELECT r.rate_date AS order_date FROM raw.orders o JOIN raw.rates r ON r.rate_date <=> o.order_date",
        "SELECT o.order_date FROM raw.orders o JOIN raw.rates r ON r.k = o.k WHERE r.rate_date = o.order_date",
        "SELECT order_date FROM raw.orders o JOIN raw.returns r USING (order_date, k)",
        "SELECT order_date FROM raw.orders o NATURAL JOIN raw.returns r",
        "SELECT o.order_date FROM raw.orders o LEFT JOIN raw.rates r ON r.rate_date = o.order_date",
        "SELECT o.order_date FROM raw.rates r RIGHT JOIN raw.orders o ON r.rate_date = o.order_date",
        "SELECT o.order_date FROM raw.orders o LEFT SEMI JOIN raw.rates r ON r.rate_date = o.order_date",
        "SELECT o.order_date FROM raw.orders o LEFT ANTI JOIN raw.rates r ON r.rate_date = o.order_date AND r.k = o.k",
        "SELECT order_date FROM raw.orders o FULL OUTER JOIN raw.returns r USING (order_date)",
        "SELECT coalesce(o.order_date, r.rate_date) AS order_date, count(*) AS n FROM raw.orders o "
        "FULL JOIN raw.rates r ON r.rate_date = o.order_date GROUP BY coalesce(o.order_date, r.rate_date)",
        "SELECT o.order_date FROM raw.orders o JOIN raw.customers c ON c.id = o.id",
        "SELECT o.order_date FROM raw.orders o LEFT JOIN raw.customers c ON c.id = o.id",
        "SELECT o.order_date FROM raw.customers c RIGHT JOIN raw.orders o ON c.id = o.id",
        "SELECT o.order_date FROM raw.customers c CROSS JOIN raw.orders o",
        "SELECT o.order_date FROM raw.orders o JOIN raw.customers c ON c.day = o.order_date "
        "JOIN raw.rates r ON r.rate_date = c.day",
        "SELECT o.order_date FROM raw.orders o LEFT JOIN (raw.rates r JOIN raw.customers c ON c.k = r.k) "
        "ON r.rate_date = o.order_date",
        "SELECT o.order_date FROM (SELECT order_date, k, sum(x) AS x FROM raw.orders GROUP BY ALL) o "
        "JOIN (SELECT DISTINCT rate_date AS d, k FROM raw.rates) r ON r.d = o.order_date AND r.k = o.k",
    ],
)
def test_a_join_that_equates_the_times_is_fine(sql: str) -> None:
    assert is_sliceable(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT o.order_date FROM raw.orders o\nJOIN raw.rates r ON r.k = o.k",
        "SELECT o.order_date FROM raw.orders o\nJOIN raw.rates r ON r.rate_date = o.order_date OR r.k = o.k",
        "SELECT o.order_date FROM raw.orders o\nJOIN raw.rates r ON NOT r.rate_date = o.order_date",
        "SELECT o.order_date FROM raw.orders o\nJOIN raw.rates r ON r.rate_date <= o.order_date",
        "SELECT o.order_date FROM raw.orders o\nJOIN raw.rates r ON r.rate_date = o.shipped",
        "SELECT o.order_date FROM raw.orders o\nJOIN raw.rates r ON r.rate_date = last_day(o.order_date)",
        "SELECT o.order_date FROM raw.orders o\nJOIN raw.rates r ON r.rate_date = add_months(o.order_date, 1)",
        "SELECT o.order_date FROM raw.orders o\nJOIN raw.rates r USING (k)",
        "SELECT o.order_date FROM raw.orders o\nJOIN (SELECT k, rate_date AS d FROM raw.rates) r ON r.k = o.k",
    ],
)
def test_a_join_that_does_not_is_a_reason(sql: str) -> None:
    assert reason_of(sql) == ("JOIN with raw.rates at line 2 of the query doesn't equate its rate_date with order_date")


def test_a_comma_join_without_equality_is_a_reason() -> None:
    assert reason_of("SELECT o.order_date FROM raw.orders o, raw.rates r").startswith("CROSS JOIN with raw.rates")


@pytest.mark.parametrize(
    ("condition", "lookback", "lookahead", "expected"),
    [
        ("r.rate_date BETWEEN date_sub(o.order_date, 7) AND o.order_date", 7, 0, True),
        ("r.rate_date BETWEEN date_sub(o.order_date, 7) AND o.order_date", 6, 0, False),
        ("r.rate_date >= o.order_date - INTERVAL 7 DAYS AND r.rate_date <= o.order_date", 7, 0, True),
        ("o.order_date <= date_add(r.rate_date, 7) AND o.order_date >= r.rate_date", 7, 0, True),
        ("r.rate_date = date_sub(o.order_date, 1)", 1, 0, True),
        ("r.rate_date = o.order_date - 1", 0, 0, False),
        ("r.rate_date = o.order_date - INTERVAL '1' DAY", 1, 0, True),
        ("date_add(r.rate_date, 1) = o.order_date", 1, 0, True),
        ("r.rate_date = date_add(o.order_date, 2)", 9, 1, False),
        ("r.rate_date = date_add(o.order_date, 2)", 0, 2, True),
        ("r.rate_date = dateadd(DAY, -1, o.order_date)", 1, 0, True),
        ("r.rate_date = o.order_date - INTERVAL 1 WEEK", 7, 0, True),
        ("r.rate_date = o.order_date - INTERVAL 1 MONTH", 99, 99, False),
        ("r.rate_date = date_sub(o.order_date, o.n)", 99, 99, False),
        ("r.rate_date >= date_sub(o.order_date, 7)", 99, 0, False),
        ("r.rate_date = o.order_date", 5, 5, True),
    ],
)
def test_a_join_may_reach_as_far_as_lookback_and_lookahead(
    condition: str, lookback: int, lookahead: int, expected: bool
) -> None:
    rates = Input(name="raw.rates", table="raw.rates", time="rate_date", lookback=lookback, lookahead=lookahead)
    sql = f"SELECT o.order_date FROM raw.orders o JOIN raw.rates r ON {condition}"
    assert is_sliceable(sql, ORDERS, rates) is expected


def test_a_join_that_reaches_further_says_so() -> None:
    sql = "SELECT o.order_date FROM raw.orders o JOIN raw.rates r ON r.rate_date = date_sub(o.order_date, 1)"
    assert reason_of(sql) == "JOIN with raw.rates at line 1 of the query looks further than its lookback and lookahead"


def test_the_side_that_reads_more_is_the_one_that_may_be_looked_back_at() -> None:
    sql = "SELECT o.order_date FROM raw.orders o JOIN raw.rates r ON r.rate_date = date_sub(o.order_date, 1)"
    orders = Input(name="raw.orders", table="raw.orders", time="order_date", lookback=1)
    assert not is_sliceable(sql, orders, RATES)


def test_bounds_along_a_chain_of_joins_add_up() -> None:
    def chain(lookback: int) -> bool:
        rates = Input(name="raw.rates", table="raw.rates", time="rate_date", lookback=2)
        returns = Input(name="raw.returns", table="raw.returns", time="order_date", lookback=lookback)
        sql = (
            "SELECT o.order_date FROM raw.orders o JOIN raw.rates r ON r.rate_date = o.order_date - 2 "
            "JOIN raw.returns t ON t.order_date = r.rate_date - 3"
        )
        return is_sliceable(sql, ORDERS, rates, returns)

    assert chain(5)
    assert not chain(4)


def test_a_grouping_over_an_input_with_lookback_is_fine_when_it_carries_the_time() -> None:
    wide = Input(name="raw.orders", table="raw.orders", time="order_date", lookback=30)
    assert is_sliceable("SELECT order_date, count(*) AS n FROM raw.orders GROUP BY order_date", wide)
    assert not is_sliceable("SELECT max(order_date) AS order_date, k FROM raw.orders GROUP BY k", wide)


def test_conditions_of_a_left_join_hold_only_where_it_matches() -> None:
    """`c.day = o.order_date` says nothing about orders without a customer."""
    sql = (
        "SELECT o.order_date FROM raw.orders o "
        "LEFT JOIN raw.customers c ON c.day = o.order_date AND c.day = o.shipped "
        "JOIN raw.rates r ON r.rate_date = o.shipped"
    )
    assert reason_of(sql).startswith("JOIN with raw.rates")


def test_a_join_through_a_left_joined_table_is_followed() -> None:
    assert is_sliceable(
        "SELECT o.order_date FROM raw.orders o LEFT JOIN raw.customers c ON c.day = o.order_date "
        "LEFT JOIN raw.rates r ON r.rate_date = c.day"
    )


@pytest.mark.parametrize("left", ["raw.orders o", "(raw.orders) o", "(SELECT * FROM raw.orders) o"])
def test_a_join_in_parentheses_is_followed_unless_an_alias_hides_it(left: str) -> None:
    inner = f"({left} JOIN raw.rates r ON {{}})"
    tied, loose = inner.format("r.rate_date = o.order_date"), inner.format("r.k = o.k")
    assert is_sliceable(f"SELECT o.order_date FROM {tied}")
    assert reason_of(f"SELECT o.order_date FROM {loose}").startswith("JOIN with raw.rates")
    assert reason_of(f"SELECT o.order_date FROM raw.customers c JOIN {loose}").startswith("JOIN with raw.rates")
    for hidden in (f"{tied} x", f"({loose}) x"):
        assert reason_of(f"SELECT x.order_date FROM {hidden}") == (
            "the join at line 1 of the query can't be followed behind an alias of its own"
        )


def test_an_input_that_nothing_follows_is_a_reason() -> None:
    sql = "WITH unused AS (SELECT * FROM raw.rates) SELECT order_date FROM raw.orders"
    assert reason_of(sql) == "raw.rates at line 1 of the query stands where it isn't followed"


def test_a_comma_next_to_a_full_join_is_not_followed() -> None:
    sql = "SELECT order_date FROM raw.customers c, raw.orders o FULL JOIN raw.returns r USING (order_date) "
    assert "can't be followed next to a RIGHT or FULL JOIN" in " ".join(read(sql).batching.reasons)


# queries within expressions


@pytest.mark.parametrize(
    "condition",
    [
        "EXISTS (SELECT 1 FROM raw.rates r WHERE r.rate_date = o.order_date AND r.k = o.k)",
        "EXISTS (SELECT 1 FROM raw.rates WHERE rate_date = o.order_date LIMIT 1)",
        "NOT EXISTS (SELECT 1 FROM raw.rates r WHERE r.rate_date = o.order_date AND r.k = o.k)",
        "o.order_date IN (SELECT rate_date FROM raw.rates)",
        "(o.k, o.order_date) IN (SELECT r.k, r.rate_date FROM raw.rates r)",
        "(o.k, o.order_date) NOT IN (SELECT r.k, r.rate_date FROM raw.rates r)",
        "o.order_date IN (SELECT r.rate_date FROM raw.rates r GROUP BY r.rate_date HAVING count(*) > 1)",
        "o.k IN (SELECT r.k FROM raw.rates r WHERE r.rate_date = o.order_date)",
        "o.x > (SELECT avg(r.x) FROM raw.rates r WHERE r.rate_date = o.order_date)",
        "o.x > (SELECT avg(r.x) FROM raw.rates r WHERE r.rate_date = o.order_date GROUP BY r.k ORDER BY 1 LIMIT 1)",
        "o.id IN (SELECT id FROM raw.customers)",
        "o.id NOT IN (SELECT id FROM raw.customers)",
        "EXISTS (SELECT 1 FROM raw.rates r WHERE r.rate_date = o.order_date "
        "AND EXISTS (SELECT 1 FROM raw.returns t WHERE t.order_date = o.order_date AND t.k = r.k))",
        "EXISTS (SELECT 1 FROM raw.rates r WHERE r.rate_date = o.order_date "
        "UNION ALL SELECT 1 FROM raw.returns t WHERE t.order_date = o.order_date)",
    ],
)
def test_a_query_within_that_is_held_to_the_time_is_fine(condition: str) -> None:
    assert is_sliceable(f"SELECT o.order_date FROM raw.orders o WHERE {condition}")
    assert is_sliceable(f"SELECT o.order_date, CASE WHEN {condition} THEN 1 ELSE 0 END AS y FROM raw.orders o")


@pytest.mark.parametrize(
    ("condition", "word"),
    [
        ("EXISTS (SELECT 1 FROM raw.rates r WHERE r.k = o.k)", "EXISTS"),
        ("EXISTS (SELECT 1 FROM raw.rates r WHERE r.rate_date = o.order_date OR r.k = o.k)", "EXISTS"),
        ("o.k IN (SELECT r.k FROM raw.rates r)", "IN"),
        ("o.shipped IN (SELECT r.rate_date FROM raw.rates r)", "IN"),
        ("o.x > (SELECT avg(r.x) FROM raw.rates r)", "the subquery"),
        ("o.x > (SELECT avg(r.x) FROM raw.rates r WHERE r.rate_date < o.order_date)", "the subquery"),
    ],
)
def test_one_that_is_not_is_a_reason(condition: str, word: str) -> None:
    assert reason_of(f"SELECT o.order_date FROM raw.orders o WHERE {condition}") == (
        f"{word} over raw.rates at line 1 of the query doesn't equate its rate_date with order_date"
    )


def test_a_grouping_within_in_must_carry_the_time_it_is_compared_by() -> None:
    sql = (
        "SELECT o.order_date FROM raw.orders o WHERE o.order_date IN "
        "(SELECT max(r.rate_date) FROM raw.rates r GROUP BY r.k)"
    )
    assert reason_of(sql) == "GROUP BY at line 1 of the query doesn't carry rate_date"


def test_a_lateral_query_is_held_to_the_time_like_others() -> None:
    sql = "SELECT o.order_date, z.m FROM raw.orders o, LATERAL (SELECT max(r.x) AS m FROM raw.rates r WHERE {}) z"
    assert is_sliceable(sql.format("r.rate_date = o.order_date"))
    assert reason_of(sql.format("r.k = o.k")).startswith("LATERAL over raw.rates")


def test_what_depends_on_slices_cannot_decide_about_an_input_read_whole() -> None:
    sql = "SELECT c.day AS order_date FROM raw.customers c WHERE EXISTS (SELECT 1 FROM raw.orders o WHERE o.k = c.k)"
    assert reason_of(sql) == (
        "EXISTS over raw.orders at line 1 of the query decides about rows of an input that is read whole"
    )


# slice parameters


@pytest.mark.parametrize(
    "condition",
    [
        "order_date BETWEEN :start_date AND :end_date",
        "order_date >= :start_date AND order_date <= :end_date",
        "order_date >= :start_ts AND order_date < :end_ts",
        "order_date >= date_sub(:start_date, 3)",
        "updated < :run_ts",
    ],
)
def test_parameters_that_only_repeat_the_scope_are_fine(condition: str) -> None:
    assert is_sliceable(f"SELECT order_date FROM raw.orders WHERE {condition}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT order_date FROM raw.orders WHERE order_date = :start_date",
        "SELECT order_date FROM raw.orders WHERE order_date > :start_date",
        "SELECT order_date FROM raw.orders WHERE order_date < :start_date",
        "SELECT order_date FROM raw.orders WHERE shipped >= :start_date",
        "SELECT order_date FROM raw.orders WHERE order_date >= :start_date OR x",
        "SELECT order_date, :start_date AS x FROM raw.orders",
        "SELECT order_date, datediff(:start_date, order_date) AS x FROM raw.orders",
        "SELECT o.order_date FROM raw.orders o JOIN raw.customers c ON c.day >= :start_date",
    ],
)
def test_parameters_that_mean_another_day_in_a_wave_are_a_reason(sql: str) -> None:
    assert reason_of(sql) == "`:start_date` at line 1 of the query does more than bound a time column from its own side"


def test_a_parameter_cuts_off_what_lookback_would_show() -> None:
    wide = Input(name="raw.rates", table="raw.rates", time="rate_date", lookback=1)
    join = "SELECT o.order_date FROM raw.orders o JOIN raw.rates r ON r.rate_date = date_sub(o.order_date, 1)"
    assert is_sliceable(join, ORDERS, wide)
    assert not is_sliceable(f"{join} WHERE r.rate_date >= :start_date", ORDERS, wide)
    assert is_sliceable(f"{join} WHERE r.rate_date >= date_sub(:start_date, 1)", ORDERS, wide)


# what is refused: absence that depends on the slices read


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT o.order_date, c.id FROM raw.customers c LEFT JOIN raw.orders o ON o.id = c.id",
        "SELECT o.order_date, c.id FROM raw.orders o RIGHT JOIN raw.customers c ON o.id = c.id",
        "SELECT o.order_date, c.id FROM raw.orders o FULL JOIN raw.customers c ON o.id = c.id",
        "SELECT r.rate_date AS order_date FROM raw.rates r LEFT JOIN raw.orders o ON o.id = r.id",
        "SELECT r.rate_date AS order_date FROM raw.rates r LEFT JOIN raw.orders o ON o.id = r.id WHERE o.id IS NULL",
        "SELECT r.rate_date AS order_date FROM raw.rates r LEFT ANTI JOIN raw.orders o ON o.id = r.id",
        "SELECT r.rate_date AS order_date FROM raw.rates r LEFT JOIN "
        "(SELECT id, count(*) AS n FROM raw.orders GROUP BY id) o ON o.id = r.id",
        "SELECT r.rate_date AS order_date FROM raw.rates r "
        "WHERE NOT EXISTS (SELECT 1 FROM raw.orders o WHERE o.id = r.id)",
        "SELECT r.rate_date AS order_date FROM raw.rates r WHERE NOT (r.x AND EXISTS (SELECT 1 FROM raw.orders o))",
        "SELECT r.rate_date AS order_date FROM raw.rates r WHERE r.id NOT IN (SELECT id FROM raw.orders)",
        "SELECT c.day AS order_date FROM raw.customers c WHERE c.id NOT IN (SELECT id FROM raw.orders)",
        "SELECT r.rate_date AS order_date FROM raw.rates r "
        "LEFT JOIN LATERAL (SELECT x FROM raw.orders o WHERE o.id = r.id)",
    ],
)
def test_absence_that_is_not_held_to_the_time_is_refused(sql: str) -> None:
    (problem,) = read(sql).problems
    assert (
        "raw.orders isn't held to its order_date, so what it doesn't find depends on the slices read" in problem.message
    )
    assert problem.line == 1
    assert problem.remedy.startswith("equate the time columns")


def test_absence_beyond_lookback_is_refused() -> None:
    sql = (
        "SELECT o.order_date FROM raw.orders o\n"
        "LEFT JOIN raw.rates r ON r.rate_date BETWEEN date_sub(o.order_date, 7) AND o.order_date"
    )
    (problem,) = read(sql).problems
    assert problem.message.startswith("LEFT JOIN with raw.rates looks further than its lookback and lookahead")
    assert problem.line == 2
    enough = Input(name="raw.rates", table="raw.rates", time="rate_date", lookback=7)
    assert is_sliceable(sql, ORDERS, enough)


def test_what_the_preserved_side_looks_for_must_be_read_even_if_the_other_side_finds_everything() -> None:
    ahead = Input(name="raw.orders", table="raw.orders", time="order_date", lookahead=7)
    sql = (
        "SELECT r.rate_date AS order_date FROM raw.orders o "
        "{} JOIN raw.rates r ON r.rate_date BETWEEN date_sub(o.order_date, 7) AND o.order_date"
    )
    assert is_sliceable(sql.format("INNER"), ahead, RATES)
    assert len(read(sql.format("LEFT"), ahead, RATES).problems) == 1


def test_a_not_exists_on_its_own_source_is_refused_until_it_names_the_day() -> None:
    inputs = (
        Input(name="o", table="raw.orders", time="order_date"),
        Input(name="p", table="raw.orders", time="order_date"),
    )
    sql = (
        "SELECT o.order_date FROM raw.orders o WHERE NOT EXISTS "
        "(SELECT 1 FROM raw.orders p WHERE p.id = o.id AND p.version > o.version{})"
    )
    assert len(read(sql.format(""), *inputs).problems) == 1
    assert is_sliceable(sql.format(" AND p.order_date = o.order_date"), *inputs)


def test_not_in_asks_of_a_null_whether_there_is_any_row_at_all() -> None:
    """`NULL NOT IN (…)` is true for no rows and NULL for some, whatever their days."""
    sql = (
        "SELECT o.order_date FROM raw.orders o LEFT JOIN raw.returns t ON t.order_date = o.order_date "
        "WHERE t.order_date NOT IN (SELECT r.rate_date FROM raw.rates r)"
    )
    assert not is_sliceable(sql)
    assert is_sliceable(sql.replace("WHERE t.", "WHERE o."))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT :start_date AS order_date, c.id, count(o.x) AS n FROM raw.customers c "
        "LEFT JOIN raw.orders o ON o.id = c.id AND o.order_date = :start_date GROUP BY c.id",
        "SELECT r.rate_date AS order_date FROM raw.rates r LEFT JOIN (SELECT id, count(*) AS n FROM raw.orders "
        "WHERE order_date BETWEEN :start_date AND :end_date GROUP BY id) o ON o.id = r.id",
        "SELECT c.day AS order_date FROM raw.customers c LEFT JOIN raw.orders o ON o.order_date = c.day",
        "SELECT r.rate_date AS order_date FROM raw.rates r WHERE NOT EXISTS "
        "(SELECT 1 FROM raw.orders o WHERE o.order_date BETWEEN :start_date AND :end_date)",
    ],
)
def test_absence_within_days_that_the_sql_names_runs_slice_by_slice(sql: str) -> None:
    assert not is_sliceable(sql)


# grains


def judged(sql: str, every: str, *, in_utc: bool = True, **reach: object) -> tuple[str, ...]:
    declared = Input(name="raw.s", table="raw.s", time="ts", **reach)  # type: ignore[arg-type]
    other = Input(name="raw.r", table="raw.r", time="d")
    inputs = (declared, other) if "raw.r" in sql else (declared,)
    slicing = Slicing(by="at", every=Grain(every))
    found = read_query(sql, model="mart.m", inputs=inputs, slicing=slicing, in_utc=in_utc)
    assert found.problems == ()
    return found.batching.reasons


TRUNCATED = [
    ("month", "date_trunc('MONTH', ts)"), ("month", "trunc(ts, 'MM')"), ("month", "CAST(ts AS DATE)"),
    ("year", "date_trunc('month', ts)"), ("week", "trunc(ts, 'WEEK')"), ("day", "to_date(ts)"), ("day", "date(ts)"),
    ("hour", "date_trunc('HOUR', ts)"), ("hour", "date_trunc('MINUTE', ts)"), ("month", "ts"),
    ("day", "CAST(date_trunc('day', ts) AS DATE)"), ("week", "to_date(date_trunc('WEEK', ts))"),
    ("month", "date_trunc('MONTH', CAST(date_trunc('HOUR', ts) AS DATE))"),
]  # fmt: skip


@pytest.mark.parametrize(("every", "at"), TRUNCATED)
def test_a_time_cut_down_to_a_slice_or_a_part_of_one_carries_the_slice(every: str, at: str) -> None:
    assert judged(f"SELECT {at} AS at, count(*) AS n FROM raw.s GROUP BY {at}", every) == ()
    assert judged(f"SELECT {at} AS at, count(*) AS n FROM raw.s GROUP BY 1", every) == ()
    assert judged(f"SELECT DISTINCT {at} AS at FROM raw.s", every) == ()
    assert judged(f"SELECT at, sum(x) OVER (PARTITION BY at) AS s FROM (SELECT {at} AS at, x FROM raw.s)", every) == ()
    assert judged(f"SELECT {at} AS at, sum(x) OVER (PARTITION BY {at}) AS s FROM raw.s", every) == ()


@pytest.mark.parametrize(("every", "at"), [case for case in TRUNCATED if case[1] != "ts"])
def test_where_sparks_days_are_not_those_of_utc_nothing_is_taken_for_cut_down(every: str, at: str) -> None:
    assert judged(f"SELECT {at} AS at, count(*) AS n FROM raw.s GROUP BY {at}", every, in_utc=False)


@pytest.mark.parametrize(
    ("every", "at"),
    [("day", "date_trunc('MONTH', ts)"), ("month", "date_trunc('WEEK', ts)"), ("week", "date_trunc('MONTH', ts)"),
     ("hour", "CAST(ts AS DATE)"), ("year", "year(ts)"), ("month", "date_trunc('QUARTER', ts)"),
     ("month", "last_day(ts)"), ("month", "to_date(ts, 'yyyy-MM')"), ("month", "date_trunc(month, ts)")],
)  # fmt: skip
def test_whatever_else_is_done_to_a_time_runs_slice_by_slice(every: str, at: str) -> None:
    assert judged(f"SELECT {at} AS at, count(*) AS n FROM raw.s GROUP BY {at}", every)


CUTS = {
    "CAST({} AS DATE)": Grain.DAY, "to_date({})": Grain.DAY, "date_trunc('hour', {})": Grain.HOUR,
    "date_trunc('DAY', {})": Grain.DAY, "trunc({}, 'WEEK')": Grain.WEEK, "date_trunc('month', {})": Grain.MONTH,
    "date_trunc('YEAR', {})": Grain.YEAR,
}  # fmt: skip


@given(
    cuts=st.lists(st.sampled_from(sorted(CUTS)), min_size=1, max_size=3),
    every=st.sampled_from(list(Grain)),
    hours=st.tuples(st.integers(-20_000, 20_000), st.integers(0, 800)),
)
def test_a_time_that_is_cut_down_several_times_is_never_taken_for_one_of_its_slice_wrongly(
    cuts: list[str], every: Grain, hours: tuple[int, int]
) -> None:
    def cut_down(hour: int) -> int:
        return reduce(lambda at, cut: CUTS[cut].first_hour(CUTS[cut].holding(at)), cuts, hour)

    at = reduce(lambda inner, cut: cut.format(inner), cuts, "ts")
    one, other = hours[0], sum(hours)
    if judged(f"SELECT {at} AS at FROM raw.s", every) == ():
        assert every.holding(cut_down(one)) == every.holding(one)
    if judged(f"SELECT ts AS at, sum(x) OVER (PARTITION BY {at}) AS s FROM raw.s", every) == ():
        assert cut_down(one) != cut_down(other) or every.holding(one) == every.holding(other)
    if all(CUTS[cut].divides(every) for cut in cuts):
        assert judged(f"SELECT {at} AS at, sum(x) OVER (PARTITION BY {at}) AS s FROM raw.s", every) == ()


JOINED = "SELECT s.ts AS at FROM raw.s s JOIN raw.r r ON r.d = CAST(s.ts AS DATE)"


@pytest.mark.parametrize(("every", "fits"), [("day", True), ("month", True), ("hour", False)])
def test_a_day_equated_with_the_day_of_a_time_holds_both_to_the_slice_but_for_hours(every: str, fits: bool) -> None:
    assert (judged(JOINED, every) == ()) is fits


@pytest.mark.parametrize(
    ("every", "lookback", "days", "fits"),
    [("month", 1, 28, True), ("month", 1, 29, False), ("week", 2, 14, True), ("week", 2, 15, False),
     ("day", timedelta(hours=36), 1, True), ("day", timedelta(hours=36), 2, False), ("hour", 48, 2, False)],
)  # fmt: skip
def test_a_lookback_holds_as_many_days_as_its_slices_have_at_least(
    every: str, lookback: object, days: int, fits: bool
) -> None:
    window = f"sum(x) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL {days} DAYS PRECEDING AND CURRENT ROW)"
    assert (judged(f"SELECT ts AS at, {window} AS s FROM raw.s", every, lookback=lookback) == ()) is fits


@pytest.mark.parametrize(
    ("every", "where", "fits"),
    [("hour", "ts >= :start_ts AND ts < :end_ts", True), ("hour", "ts >= :start_date AND ts <= :end_date", False),
     ("month", "ts >= :start_date AND ts <= :end_date", True), ("month", "ts >= :start_ts AND ts < :end_ts", True)],
)  # fmt: skip
def test_parameters_that_only_bound_the_slices_leave_them_apart(every: str, where: str, fits: bool) -> None:
    assert (judged(f"SELECT ts AS at FROM raw.s WHERE {where}", every) == ()) is fits
