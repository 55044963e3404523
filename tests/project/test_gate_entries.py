"""Gates on values and on other tables, as authors write them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from retcon.core.gates import Gate, Metric
from retcon.core.measures import Listed, Value, ValueKind
from retcon.core.models import Model
from retcon.core.reconciling import Reconcile, Tolerance
from retcon.core.suites import Expectation, GreatExpectations
from retcon.core.table_gates import ForeignKey, NoRows
from retcon.core.value_gates import Accepted, NullRate
from retcon.errors import ProjectInvalid
from retcon.project import queries
from retcon.project.load import load_project

SETTINGS = 'name: s\ncatalog: {name: lake, type: jdbc, uri: "sqlite:///.retcon/lake.db", warehouse: .retcon/w}\n'
BY_DAY = "slices: {by: d, every: day}"
SQL = "SELECT d, a, name, columns, count(*) AS n FROM raw.s GROUP BY d, a, name, columns"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "models" / "mart").mkdir(parents=True)
    (tmp_path / "retcon.yaml").write_text(SETTINGS)
    return tmp_path


def model(root: Path, *gates: str, slices: str = BY_DAY) -> Model:
    lines = "\n".join(f"  - {gate}" for gate in gates)
    time = "time: d" if "every" in slices else "key: a" if slices else ""
    (root / "models" / "mart" / "x.sql").write_text(
        f"/* retcon\n{slices}\ninputs: {{raw.s: {{{time}}}}}\ngates:\n{lines}\n*/\n{SQL}"
    )
    return load_project(root, {}, queries).graph.models["mart.x"]


def gates(root: Path, *entries: str, slices: str = BY_DAY) -> tuple[Gate, ...]:
    return model(root, *entries, slices=slices).gates


def listed(column: str, kind: ValueKind, *texts: str) -> Listed:
    return Listed(column=column, values=tuple(Value(kind=kind, text=text) for text in texts))


def test_gates_whose_keys_are_columns_have_a_short_and_a_long_form(root: Path) -> None:
    assert gates(
        root,
        "null_rate: {a: 5%, name: 0.1}",
        "null_rate: {columns: 1%}",
        "null_rate: {columns: {a: 0}, name: none, warn: true}",
        "accepted: {columns: [x], name: ['y']}",
        "accepted: {columns: {columns: [x]}}",
    ) == (
        NullRate(name="null_rate", most=(("a", Decimal("0.05")), ("name", Decimal("0.1")))),
        NullRate(name="null_rate-2", most=(("columns", Decimal("0.01")),)),
        NullRate(name="none", most=(("a", Decimal(0)),), warns=True),
        Accepted(name="accepted", listed=(listed("columns", ValueKind.TEXT, "x"), listed("name", ValueKind.TEXT, "y"))),
        Accepted(name="accepted-2", listed=(listed("columns", ValueKind.TEXT, "x"),)),
    )


def test_listed_values_keep_their_kind_and_their_digits(root: Path) -> None:
    [gate] = gates(
        root,
        "accepted: {a: [x, '1', null, x], n: [1, 2.50, -3.0e+2], name: [true, no],"
        " d: [2026-01-01, 2026-01-01], columns: [2026-01-01 10:00:00, 2026-01-01T10:00:00+02:00]}",
    )
    assert isinstance(gate, Accepted)
    assert gate.listed == (
        listed("a", ValueKind.TEXT, "x", "1"),
        listed("n", ValueKind.NUMBER, "1", "2.5", "-300.0"),
        listed("name", ValueKind.TRUTH, "true", "false"),
        listed("d", ValueKind.DATE, "2026-01-01"),
        listed("columns", ValueKind.TIME, "2026-01-01 10:00:00", "2026-01-01 08:00:00"),
    )


def test_a_foreign_key_means_the_same_names_unless_it_says_others(root: Path) -> None:
    assert gates(
        root,
        "foreign_key: {cols: [a], to: raw.c, on: [id]}",
        "foreign_key: {columns: [a, d], to: mart.y, warn: true}",
    ) == (
        ForeignKey(name="foreign_key", columns=("a",), to="raw.c", on=("id",)),
        ForeignKey(name="foreign_key-2", columns=("a", "d"), to="mart.y", on=("a", "d"), warns=True),
    )


def test_a_query_of_the_authors_own_knows_its_tables_by_name(root: Path) -> None:
    short, named = gates(
        root,
        "no_rows: SELECT d FROM mart.x WHERE n < 0;",
        "no_rows: {sql: 'WITH s AS (SELECT 1 AS n) SELECT x.d FROM mart.x x, raw.s, mart.x, s', name: own, warn: true}",
    )
    assert isinstance(short, NoRows)
    assert short.tables == (("mart.x", "mart.x"),)
    assert short.query.text == "SELECT d FROM mart.x WHERE n < 0"
    assert isinstance(named, NoRows)
    assert (named.name, named.warns) == ("own", True)
    assert named.tables == (("mart.x", "mart.x"), ("raw.s", "raw.s"))


def test_a_reconciliation_has_a_tolerance_in_either_form(root: Path) -> None:
    count, total = Metric(expression="count(*)", is_additive=True), Metric(expression="sum(n)", is_additive=True)
    base = "source: raw.s, by: d, metric: count(*), mart: sum(n)"
    exact, share, absolute = gates(
        root,
        f"reconcile: {{{base}}}",
        f"reconcile: {{{base}, tolerance: 0.01, where: a <> 'test'}}",
        f"reconcile: {{{base}, tolerance: {{absolute: 0.5}}}}",
    )
    expected = Reconcile(name="reconcile", source="raw.s", by="d", metric=count, mart=total)
    assert exact == expected
    assert isinstance(share, Reconcile)
    assert (share.tolerance, share.where) == (Tolerance(share=Decimal("0.01")), "a <> 'test'")
    assert isinstance(absolute, Reconcile)
    assert absolute.tolerance == Tolerance(absolute=Decimal("0.5"))
    [total_only] = gates(root, "reconcile: {source: raw.s, metric: count(*), mart: sum(n)}", slices="")
    assert isinstance(total_only, Reconcile)
    assert total_only.by is None


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("null_rate: {b: 5%}", "the query has no column `b`"),
        ("null_rate: {a: 200%}", "`gates.null_rate` can't be more than all of a: 200%"),
        ("null_rate: {a: often}", "`gates.null_rate.columns.a` must be a share"),
        ("null_rate: {}", "`gates.null_rate` must name at least one column"),
        ("null_rate: [a]", "`gates.null_rate` must be a mapping"),
        ("null_rate: {columns: {a: 1%}, most: 3}", "unknown key `gates.null_rate.most`"),
        ("accepted: {b: [1]}", "the query has no column `b`"),
        ("accepted: {a: x}", "`gates.accepted.columns.a` must be a list, not text"),
        ("accepted: {a: [null]}", "`gates.accepted.a` must list at least one value beside null"),
        ("accepted: {a: [NO, SE]}", "`gates.accepted.a` lists true or false and text"),
        ("accepted: {a: [[1]]}", "`gates.accepted.a` lists text, numbers, dates, true or false"),
        ("accepted: {a: [.nan]}", "`gates.accepted.a` lists text, numbers, dates, true or false"),
        ("foreign_key: {cols: [a]}", "the key `gates.foreign_key.to` is missing"),
        ("foreign_key: {cols: [], to: raw.c}", "`gates.foreign_key` must name at least one column"),
        ("foreign_key: {cols: [a], to: customers}", "`gates.foreign_key.to` "),
        ("foreign_key: {cols: [a], to: raw.c, on: [a, d]}", "`gates.foreign_key` compares 1 columns with 2"),
        ("foreign_key: {cols: [a], columns: [a], to: raw.c}", "unknown key `gates.foreign_key.columns`"),
        ("foreign_key: {cols: [zz], to: raw.c}", "the query has no column `zz`"),
        ("no_rows: {}", "the key `gates.no_rows.sql` is missing"),
        ("no_rows: DELETE FROM mart.x", "`gates.no_rows` can't be read: DELETE isn't a query"),
        ("no_rows: 'SELECT 1 FROM mart.x; DROP TABLE mart.x'", "`gates.no_rows` can't be read: there are several"),
        ("no_rows: SELECT 1 AS n", "`gates.no_rows` reads no table"),
        ("no_rows: SELECT * FROM x", "`gates.no_rows` can't be judged: `x` isn't the name of a table"),
        ("no_rows: SELECT * FROM mart.x WHERE d < current_date()", "`gates.no_rows` can't be judged: current_date()"),
        ("no_rows: SELECT * FROM mart.x LIMIT 1", "`gates.no_rows` can't be judged: LIMIT without ORDER BY"),
        ("no_rows: SELECT * FROM mart.x VERSION AS OF 3", "`gates.no_rows` can't be judged: `mart.x` is read as of"),
        ("no_rows: 'SELECT * FROM mart.x WHERE d = :start_date'", "`gates.no_rows` holds a parameter"),
        ("no_rows: SELECT mart.x.d FROM mart.x", "`gates.no_rows` can't be judged: `mart.x.d` names its table"),
        ("reconcile: {}", "the key `gates.reconcile.source` is missing"),
        ("reconcile: {source: raw.s, metric: sum(a), mart: sum(n)}", "`gates.reconcile` needs `by`"),
        ("reconcile: {source: raw.s, by: d, metric: a, mart: sum(n)}", "`gates.reconcile.metric` isn't an aggregate"),
        ("reconcile: {source: raw.s, by: d, metric: sum(a), mart: n}", "`gates.reconcile.mart` isn't an aggregate"),
        (
            "reconcile: {source: raw.s, by: d, metric: sum(a), mart: sum(n), tolerance: {absolute: -1}}",
            "`gates.reconcile.tolerance` can't be negative",
        ),
        (
            "reconcile: {source: raw.s, by: d, metric: sum(a), mart: sum(n), tolerance: {share: 1}}",
            "`gates.reconcile.tolerance` must be a share such as `1%`, or `{absolute: 5}`",
        ),
        (
            "reconcile: {source: raw.s, by: d, metric: sum(a), mart: sum(n), where: a = 1 GROUP BY a}",
            "`gates.reconcile.where` must be one expression such as",
        ),
        (
            "reconcile: {source: raw.s, by: d, metric: sum(a), mart: sum(n), where: a IN (SELECT 1)}",
            "`gates.reconcile.where` holds a subquery",
        ),
        (
            "reconcile: {source: raw.s, by: d, metric: sum(a), mart: sum(n), where: 'true -- '}",
            "`gates.reconcile.where` ",
        ),
        (
            "reconcile: {source: raw.s, by: d, metric: sum(a), mart: sum(n), where: rand() < 1}",
            "`gates.reconcile.where` varies: rand()",
        ),
    ],
)
def test_what_is_wrong_with_a_gate_is_told_in_words(root: Path, entry: str, message: str) -> None:
    with pytest.raises(ProjectInvalid) as caught:
        model(root, entry)
    problem = caught.value.problems[0]
    assert problem.message.startswith(message)
    assert problem.line == 5
    assert "deterministic" not in problem.remedy


@pytest.mark.parametrize(
    ("slices", "more", "message"),
    [
        (
            "slices: {by: a, buckets: 4}",
            "",
            "`gates.reconcile` compares slices of time, and the model is cut by entity",
        ),
        ("", ", by: d", "`gates.reconcile` has a `by`, but the model has no slices"),
    ],
)
def test_slices_are_reconciled_by_time_or_not_at_all(root: Path, slices: str, more: str, message: str) -> None:
    with pytest.raises(ProjectInvalid) as caught:
        model(root, f"reconcile: {{source: raw.s, metric: count(*), mart: sum(n){more}}}", slices=slices)
    assert caught.value.problems[0].message == message


SUITE = {
    "name": "orders",
    "expectations": [
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "a"}, "meta": {}},
        {"expectation_type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}},
    ],
}


@pytest.mark.parametrize("folder", [".", "suites", "models/mart"])
def test_a_suite_is_beside_the_model_or_named_from_the_project(root: Path, folder: str) -> None:
    (root / folder).mkdir(exist_ok=True)
    (root / folder / "orders.json").write_text(json.dumps(SUITE))
    named = "suites/orders.json" if folder == "suites" else "orders.json"
    [gate] = gates(root, f"great_expectations: {{suite: {named}, warn: true}}")
    assert gate == GreatExpectations(
        name="great_expectations",
        suite=named,
        expectations=(
            Expectation(type="expect_column_values_to_not_be_null", arguments={"column": "a"}),
            Expectation(type="expect_table_row_count_to_be_between", arguments={"min_value": 1}),
        ),
        warns=True,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "`gates.great_expectations.suite` names orders.json, which isn't there"),
        ("{", "`gates.great_expectations.suite` names orders.json, which can't be read: "),
        ("[]", "`gates.great_expectations.suite` names a file without expectations"),
        ('{"expectations": []}', "`gates.great_expectations.suite` names a file without expectations"),
        (
            '{"expectations": [{"type": "expect_x"}, {"kwargs": {}}]}',
            "`gates.great_expectations.suite` names a suite whose item 2 is no expectation",
        ),
        (
            '{"expectations": [{"type": "unexpected_rows_expectation"}]}',
            "`gates.great_expectations.suite` names a suite with a query of its own",
        ),
    ],
)
def test_a_suite_that_isnt_one_is_refused_without_the_library(root: Path, text: str | None, message: str) -> None:
    if text is not None:
        (root / "orders.json").write_text(text)
    with pytest.raises(ProjectInvalid) as caught:
        model(root, "great_expectations: {suite: orders.json}")
    [problem] = caught.value.problems
    assert problem.message.startswith(message)
    assert problem.line == 5
