"""A model file becomes a model, or problems that name their line and what to do."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from retcon.core.gates import Drift, NotNull, Profile, Rows, Unique
from retcon.core.models import UNSLICED, Input, Model, OnChange, Replay, Slicing, Strategy
from retcon.core.profiles import ProfileBounds
from retcon.core.row_histories import RowHistory
from retcon.core.slices import Buckets
from retcon.errors import Problem, ProjectInvalid
from retcon.project import queries
from retcon.project.model_files import KnownNames, read_model

KNOWN = KnownNames(models=("mart.a", "mart.before"), params=("floor",), consumers=("exec_dashboard",))
SQL = "SELECT order_date, currency, sum(amount) AS revenue FROM raw.orders GROUP BY order_date, currency"
SLICES = "slices: {by: order_date, every: day}"
ORDERS = "inputs: {raw.orders: {time: order_date}}"

FULL = """\
/* retcon
description: Revenue per day.
owner: data
tags: [finance, daily]
slices: {by: order_date, every: day, start: 2025-01-01}
strategy: replace
key: [order_date, currency]
columns: {order_date: date, currency: string, revenue: "decimal(14,2)"}
inputs:
  o: {table: raw.orders, time: order_date, lookback: 2, lookahead: 1 week, key: order_id, on_change: ignore}
  raw.currencies:
after: [mart.before]
replay: {order: parallel, wave: 15, window: 90 days, reprocess: 3 days, deep: "0 4 * * 0", sliceable: true}
gates:
  - rows: {min: 1, max: 500, change: 10%}
  - unique: key
  - not_null: [revenue]
  - drift: {name: revenue, metric: sum(revenue), within: 20%}
  - drift: {metric: count(*), from: -5%, to: 0.1}
consumers: [exec_dashboard]
allow_empty: true
retention: 3 months
schedule: "*/5 * * * *"
volatile: [revenue]
samples: true
deterministic: {value: false, reason: the rates are looked up}
*/
SELECT o.order_date, o.currency, sum(o.amount) AS revenue
FROM raw.orders o CROSS JOIN raw.currencies
GROUP BY o.order_date, o.currency
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "models" / "mart").mkdir(parents=True)
    return tmp_path


def write(root: Path, text: str) -> Path:
    path = root / "models" / "mart" / "a.sql"
    path.write_bytes(text.encode())
    return path


def read(root: Path, text: str) -> Model:
    return read_model(write(root, text), root, KNOWN, queries)


def model_text(*keys: str, sql: str = SQL) -> str:
    lines = "\n".join((SLICES, ORDERS, *keys))
    return f"/* retcon\n{lines}\n*/\n{sql}\n"


def problems(root: Path, text: str) -> tuple[Problem, ...]:
    with pytest.raises(ProjectInvalid) as caught:
        read(root, text)
    assert all(p.path == "models/mart/a.sql" for p in caught.value.problems)
    return caught.value.problems


def problem(root: Path, text: str) -> Problem:
    (only,) = problems(root, text)
    return only


def test_every_key_of_the_design_is_read(root: Path) -> None:
    model = read(root, FULL)
    assert model.name == "mart.a"
    assert model.path == "models/mart/a.sql"
    assert model.description == "Revenue per day."
    assert model.owner == "data"
    assert model.tags == ("finance", "daily")
    assert model.slicing == Slicing(by="order_date", start=date(2025, 1, 1))
    assert model.key == ("order_date", "currency")
    assert model.columns == (("order_date", "date"), ("currency", "string"), ("revenue", "decimal(14,2)"))
    assert model.inputs == (
        Input(
            name="o",
            table="raw.orders",
            time="order_date",
            lookback=2,
            lookahead=7,
            key="order_id",
            on_change=OnChange.IGNORE,
        ),
        Input(name="raw.currencies", table="raw.currencies", on_change=OnChange.IGNORE),
    )
    assert model.after == ("mart.before",)
    assert model.replay == Replay(wave=15, window_days=90, reprocess_days=3, deep="0 4 * * 0")
    assert model.consumers == ("exec_dashboard",)
    assert model.allow_empty is True
    assert model.retention_days == 90
    assert model.schedule == "*/5 * * * *"
    assert model.volatile == ("revenue",)
    assert model.samples is True
    assert model.nondeterministic == "the rates are looked up"


def test_a_rows_gate_may_compare_with_the_history_and_every_gate_may_only_warn(root: Path) -> None:
    text = model_text(
        "gates:",
        "  - rows: {history: 6, warn: true}",
        "  - rows: {name: wide, history: {deviations: 6.5}}",
        "  - unique: {columns: [order_date, currency], warn: true}",
        "  - drift: {metric: sum(revenue), within: 20%, warn: true}",
    )
    short, wide, unique, drift = read(root, text).gates
    assert short == Rows(name="rows", history=RowHistory(slices=6, deviations=4.0), warns=True)
    assert wide == Rows(name="wide", history=RowHistory(slices=8, deviations=6.5))
    assert unique.warns
    assert drift.warns


def test_a_history_of_rows_needs_slices_of_time(root: Path) -> None:
    text = f"/* retcon\ninputs: {{raw.orders: {{}}}}\ngates: [rows: {{history: 8}}]\n*/\n{SQL}"
    assert problem(root, text).message == "`gates.rows` has a `history`, but the model isn't cut by time"


def test_a_profile_is_of_all_columns_or_of_some_and_held_to_what_it_says(root: Path) -> None:
    text = model_text(
        "gates:",
        "  - profile: all",
        "  - profile: [revenue]",
        "  - profile: {name: held, columns: [revenue], psi: 0.25, null_rate: 5%, outliers: 6, warn: true}",
        "  - profile: {psi: 1, outliers: {history: 12, deviations: 3}}",
    )
    everything, some, held, rest = read(root, text).gates
    assert everything == Profile(name="profile", columns=(), bounds=ProfileBounds())
    assert some == Profile(name="profile-2", columns=("revenue",), bounds=ProfileBounds())
    assert held == Profile(
        name="held",
        columns=("revenue",),
        bounds=ProfileBounds(psi=Decimal("0.25"), null_rate=Decimal("0.05"), outliers=RowHistory(slices=6)),
        warns=True,
    )
    assert rest == Profile(
        name="profile-3",
        columns=(),
        bounds=ProfileBounds(psi=Decimal(1), outliers=RowHistory(slices=12, deviations=3)),
    )


def test_outliers_need_slices_of_time(root: Path) -> None:
    text = f"/* retcon\ninputs: {{raw.orders: {{}}}}\ngates: [profile: {{outliers: 8}}]\n*/\n{SQL}"
    assert problem(root, text).message == "`gates.profile` has `outliers`, but the model isn't cut by time"


def test_gates_are_read_with_exact_numbers_and_names(root: Path) -> None:
    text = model_text(
        "key: [order_date, currency]",
        "gates:",
        "  - rows: {min: 1, max: 500, change: 10%}",
        "  - unique: key",
        "  - unique: [order_date, currency]",
        "  - not_null: {name: money, columns: [revenue]}",
        "  - drift: {name: revenue, metric: sum(revenue), within: 0.2}",
        "  - drift: {metric: count(*), from: -5%, to: 0.1}",
        "  - drift: {metric: max(revenue), from: 0%}",
    )
    gates = read(root, text).gates
    rows, key, columns, money, revenue, count, largest = gates
    assert rows == Rows(name="rows", min=1, max=500, change=Decimal("0.1"))
    assert key == Unique(name="unique", columns=("order_date", "currency"))
    assert columns == replace(key, name="unique-2")
    assert money == NotNull(name="money", columns=("revenue",))
    assert isinstance(revenue, Drift)
    assert (revenue.name, revenue.low, revenue.high) == ("revenue", Decimal("-0.2"), Decimal("0.2"))
    assert revenue.metric.expression == "sum(revenue)"
    assert isinstance(count, Drift)
    assert (count.name, count.low, count.high) == ("drift", Decimal("-0.05"), Decimal("0.1"))
    assert isinstance(largest, Drift)
    assert (largest.name, largest.low, largest.high) == ("drift-2", Decimal(0), None)


def test_little_is_required_and_the_rest_has_defaults(root: Path) -> None:
    model = read(root, model_text())
    assert model.inputs == (
        Input(name="raw.orders", table="raw.orders", time="order_date", on_change=OnChange.RESTATE),
    )
    assert model.gates == ()
    assert model.replay == Replay()
    assert model.retention_days == 14
    assert model.nondeterministic == ""
    assert model.query.columns == ("order_date", "currency", "revenue")
    assert model.batching.is_sliceable


def test_an_input_read_whole_is_not_restated_unless_asked(root: Path) -> None:
    text = f"/* retcon\n{SLICES}\ninputs: {{raw.orders: {{on_change: restate}}}}\n*/\n{SQL}"
    assert read(root, text).inputs[0].on_change is OnChange.RESTATE


def test_the_sql_is_what_follows_the_block(root: Path) -> None:
    assert read(root, model_text()).query.text.strip() == SQL


def test_a_cron_in_the_block_does_not_end_it(root: Path) -> None:
    assert read(root, model_text('schedule: "*/5 * * * *"')).schedule == "*/5 * * * *"


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(root: Path) -> None:
    plain = read(root, model_text())
    windows = read(root, "\ufeff\r\n" + model_text().replace("\n", "\r\n"))
    assert windows.fingerprint == plain.fingerprint
    assert "\r" not in windows.query.text


def test_quotes_and_unicode_in_names_are_kept(root: Path) -> None:
    text = (
        "/* retcon\n"
        'slices: {by: "jour d\'été"}\n'
        'inputs: {\'raw.commandes "françaises"\': {time: "jour d\'été"}}\n'
        "*/\n"
        'SELECT `jour d\'été` FROM raw.`commandes "françaises"`\n'
    )
    model = read(root, text)
    assert model.slicing.by == "jour d'été"
    assert model.inputs[0].table == 'raw.commandes "françaises"'


def test_a_reason_makes_a_model_nondeterministic(root: Path) -> None:
    text = model_text("deterministic: {value: false, reason: it draws}", sql=SQL.replace("sum(amount)", "max(rand())"))
    assert read(root, text).nondeterministic == "it draws"
    assert read(root, model_text("deterministic: true")).nondeterministic == ""
    assert read(root, model_text("deterministic: {value: true}")).nondeterministic == ""


def test_the_fingerprint_follows_what_changes_results(root: Path) -> None:
    def of(text: str) -> str:
        return read(root, text).fingerprint

    plain = of(model_text())
    assert len(plain) == 64
    for other in (
        model_text(sql=SQL.replace("amount", "price")),
        model_text("volatile: [revenue]"),
        model_text("columns: {order_date: date, currency: string, revenue: double}"),
        model_text().replace("{time: order_date}", "{time: order_date, lookback: 1}"),
        model_text().replace("{time: order_date}", "{time: ordered_on}"),
        model_text().replace("{time: order_date}", "{time: order_date, key: customer_id}"),
    ):
        assert of(other) != plain


def test_the_fingerprint_passes_over_what_does_not(root: Path) -> None:
    def of(text: str) -> str:
        return read(root, text).fingerprint

    plain = of(model_text())
    for other in (
        model_text("description: x", "owner: y", "tags: [z]", "consumers: [exec_dashboard]"),
        model_text("key: [order_date, currency]", "gates: [unique: key]", "retention: 3 days", "replay: {wave: 3}"),
        model_text().replace("every: day", "every: day, start: 2025-01-01"),
        model_text().replace("{time: order_date}", "{time: order_date, on_change: ignore}"),
        model_text(sql="-- a comment\n" + SQL.replace(" FROM", "\nFROM")),
    ):
        assert of(other) == plain


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "SELECT 1",
        "-- x\n/* retcon\n*/\nSELECT 1",
        "/* other\n*/",
        "/* retcon a: 1 */\nSELECT 1",
        "/*retcons\n*/",
    ],
)
def test_a_file_without_a_block_is_refused_with_the_form(root: Path, text: str) -> None:
    found = problem(root, text)
    assert found.line == 1
    assert "`/* retcon`" in found.message
    assert "`*/`" in found.remedy


def test_a_block_without_an_end_is_refused(root: Path) -> None:
    found = problem(root, f"\n/* retcon\n{SLICES} */\n{SQL}")
    assert found.message == "the `/* retcon` block doesn't end"
    assert found.line == 2
    assert found.remedy == "end it with a line `*/`"


@pytest.mark.parametrize("end", ["*/", "*/\n", "  */  \n\n"])
def test_a_block_without_a_query_is_refused(root: Path, end: str) -> None:
    assert problem(root, f"/* retcon\n{SLICES}\n{end}").message == "there is no query below the block"


def test_a_model_without_slices_is_one_slice_that_every_change_of_its_inputs_restates(root: Path) -> None:
    model = read(root, f"/* retcon\ninputs: {{raw.orders: {{}}}}\n*/\n{SQL}")
    assert model.slicing == UNSLICED
    assert model.batching.is_sliceable
    assert model.inputs[0].on_change is OnChange.RESTATE


def test_what_means_a_slice_is_refused_where_there_is_none(root: Path) -> None:
    timed = problem(root, f"/* retcon\ninputs: {{raw.orders: {{time: order_date}}}}\n*/\n{SQL}")
    assert "has a `time`, but the model isn't cut into slices" in timed.message
    text = "/* retcon\ninputs: {raw.orders: {}}\n*/\nSELECT x FROM raw.orders WHERE d >= :start_date"
    assert problem(root, text).message == "`:start_date` means a slice, and the model isn't cut into slices"


@pytest.mark.parametrize(
    ("every", "reach", "kept"),
    [("day", "7 days", 7), ("day", "36 hours", timedelta(hours=36)), ("hour", "2 days", 48), ("week", "2 weeks", 2),
     ("week", "10 days", timedelta(days=10)), ("month", "31 days", timedelta(days=31)), ("month", "1", 1)],
)  # fmt: skip
def test_a_time_that_is_a_number_of_slices_is_that_number(root: Path, every: str, reach: str, kept: object) -> None:
    text = (
        model_text()
        .replace("every: day", f"every: {every}")
        .replace("time: order_date", f"time: order_date, lookback: {reach}")
    )
    assert read(root, text).inputs[0].lookback == kept


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("gatez: []", "unknown key `gatez` — did you mean gates?"),
        ("replay: {waves: 3}", "unknown key `replay.waves` — did you mean wave?"),
        ("strategy: merge", "`strategy: merge` needs the model's `key`"),
        ("strategy: replce", "`strategy` must be `replace` or `full` or `merge`"),
        ("strategy: [x]", "`strategy` must be `replace` or `full` or `merge`"),
        ("replay: {order: backwards}", "`replay.order` must be `parallel` or `sequential`"),
        ("replay: {wave: 0}", "`replay.wave` must be at least 1"),
        ("replay: {wave: all}", "`replay.wave` must be a whole number, not text"),
        ("replay: {window: 90}", "`replay.window` must be a time span such as `14 days` or `3 months`, not `90`"),
        ("replay: [a]", "`replay` must be a mapping of `key: value`, not a list"),
        ("retention: forever", "`retention` must be a time span"),
        ("retention: -1 days", "`retention` can't be negative"),
        ("allow_empty: 1", "`allow_empty` must be true or false, not a number"),
        ("allow_empty: 'yes'", "`allow_empty` must be true or false, not text"),
        ("description: [a]", "`description` must be text, not a list"),
        ("description: 2025-01-01", "`description` must be text, not a date"),
        ("tags: finance", "`tags` must be a list, not text"),
        ("tags: [a, 1]", "item 2 of `tags` must be text, not a number"),
        ("key: {a: b}", "`key` must be a list, not a mapping"),
        ("key: [order_date, order_date]", "`key` names `order_date` twice"),
        ("key: [orderdate]", "the query has no column `orderdate`"),
        ("volatile: [loaded_at]", "the query has no column `loaded_at`"),
        ("columns: [a]", "`columns` must be a mapping of `key: value`, not a list"),
        ("columns: {order_date: date, currency: string, revenu: double}", "the query has no column `revenu`"),
        ("columns: {order_date: date, currency: string}", "the query also returns revenue"),
        ("deterministic: false", "`deterministic` needs a reason"),
        ("deterministic: {value: false}", "`deterministic` needs a reason"),
        ("deterministic: {value: false, reason: ' '}", "`deterministic` needs a reason"),
        ("deterministic: {value: 3, reason: x}", "`deterministic` must be true or"),
        ("deterministic: maybe", "`deterministic` must be true or"),
        ("consumers: [exec]", "retcon.yaml has no consumer `exec`"),
        ("after: [mart.befor]", "there is no model `mart.befor` to come after"),
        ("after: [mart.a]", "a model can't come after itself"),
        ("owner: ${TEAM}", "`owner` holds `${`, which isn't filled in here"),
        ("gates: {rows: {min: 1}}", "`gates` must be a list, not a mapping"),
        ("gates: [rows]", "a gate is one `kind: …`"),
        ("gates: [{rows: {min: 1}, unique: key}]", "a gate is one `kind: …`"),
        ("gates: [{}]", "a gate is one `kind: …`"),
        ("gates: [{driftt: {}}]", "unknown gate `driftt` — did you mean drift?"),
        ("gates: [profile: {columns: []}]", "`gates.profile` must name at least one column"),
        ("gates: [profile: {psi: 0}]", "`gates.profile.psi` must be a number above 0"),
        ("gates: [profile: {null_rate: -1%}]", "`gates.profile.null_rate` can't be negative"),
        ("gates: [profile: {outliers: 3}]", "`gates.profile.outliers.history` must be at least 4"),
        ("gates: [profile: {column: [a]}]", "unknown key `gates.profile.column` — did you mean columns?"),
        ("gates: [profile: [revenu]]", "the query has no column `revenu`"),
        ("gates: [rows: {min: 1, name: expect-2}]", "`gates.rows.name` is the name of what a plan expects"),
        ("gates: [rows: {}]", "`gates.rows` needs `min`, `max`, `change` or `history`"),
        ("gates: [rows: {history: 3}]", "`gates.rows.history.slices` must be at least 4"),
        ("gates: [rows: {history: {deviation: 3}}]", "unknown key `gates.rows.history.deviation`"),
        ("gates: [rows: {min: 1, warn: maybe}]", "`gates.rows.warn` must be true or false"),
        ("gates: [rows: ]", "`gates.rows` must be a mapping of `key: value`, not nothing"),
        ("gates: [rows: {min: 5, max: 1}]", "`gates.rows` can't be met"),
        ("gates: [rows: {min: -1}]", "`gates.rows.min` must be at least 0"),
        ("gates: [rows: {mim: 1}]", "unknown key `gates.rows.mim` — did you mean min?"),
        ("gates: [rows: {change: 20}]", "`gates.rows.change` must be a share such as `20%`"),
        ("gates: [rows: {min: 1, name: schema}]", "`gates.rows.name` is the name of a gate that is always on"),
        ("gates: [rows: {min: 1, name: 'a:b'}]", "`gates.rows.name` must be letters"),
        ("gates: [{rows: {min: 1, name: x}}, {unique: {columns: [order_date], name: x}}]", "two gates are called `x`"),
        ("gates: [unique: key]", "`gates.unique` means the model's `key`, but the model has none"),
        ("gates: [unique: order_date]", "`gates.unique.columns` must be a list, not text"),
        ("gates: [unique: []]", "`gates.unique` must name at least one column"),
        ("gates: [unique: [orderdate]]", "the query has no column `orderdate`"),
        ("gates: [not_null: {column: [a]}]", "the key `gates.not_null.columns` is missing"),
        ("gates: [drift: {within: 20%}]", "the key `gates.drift.metric` is missing"),
        ("gates: [drift: {metric: sum(revenue)}]", "`gates.drift` needs either `within`, or `from` and `to`"),
        ("gates: [drift: {metric: sum(revenue), within: 2%, to: 3%}]", "`gates.drift` needs either"),
        ("gates: [drift: {metric: sum(revenue), within: -2%}]", "`gates.drift.within` can't be negative"),
        ("gates: [drift: {metric: sum(revenue), from: 5%, to: 1%}]", "`gates.drift` can't be met"),
        ("gates: [drift: {metric: revenue +, within: 2%}]", "`gates.drift.metric` "),
    ],
)
def test_a_wrong_line_is_told_in_words(root: Path, line: str, message: str) -> None:
    found = problems(root, model_text(line))[0]
    assert found.message.startswith(message)
    assert found.line == 4
    assert "pydantic" not in found.message


@pytest.mark.parametrize(
    ("slices", "message"),
    [
        ("slices: {by: order_date, every: fortnight}", "`slices.every` must be `hour` or `day` or `week`"),
        ("slices: {by: order_date, buckets: 0}", "`slices.buckets` must be"),
        ("slices: {every: day}", "the key `slices.by` is missing"),
        ("slices: {by: [a]}", "`slices.by` must be text, not a list"),
        ("slices: day", "`slices` must be a mapping of `key: value`, not text"),
        ("slices: {by: order_date, start: soon}", "`slices.start` must be a date such as 2025-01-31"),
        ("slices: {by: order_date, start: 5}", "`slices.start` must be a date"),
        ("slices: {by: order_date, start: 2025-01-01 10:00:00}", "`slices.start` must be a date"),
        ("slices: {by: order_date, start: 2025-02-30}", "there is no 2025-02-30"),
    ],
)
def test_slices_that_cannot_be_are_told_in_words(root: Path, slices: str, message: str) -> None:
    assert problem(root, model_text().replace(SLICES, slices)).message.startswith(message)


BUCKETS = """\
/* retcon
slices: {by: customer_id, buckets: 32}
inputs: {raw.orders: {key: customer_id}, raw.rates: {}}
*/
SELECT o.customer_id, max(r.rate) AS rate FROM raw.orders o JOIN raw.rates r ON r.currency = o.currency GROUP BY 1
"""


def test_buckets_read_their_share_of_the_inputs_that_carry_the_entity(root: Path) -> None:
    model = read(root, BUCKETS)
    assert model.grain == Buckets(32)
    orders, rates = model.inputs
    assert (orders.column(model.grain), rates.column(model.grain)) == ("customer_id", None)
    assert (orders.on_change, rates.on_change) == (OnChange.RESTATE, OnChange.IGNORE)
    assert model.batching.is_sliceable
    assert read(root, BUCKETS.replace("32", "16")).fingerprint != model.fingerprint


def test_the_key_is_part_of_the_code_where_rows_are_merged_by_it(root: Path) -> None:
    merged = model_text("strategy: merge\nkey: [order_date, currency]")
    assert read(root, merged).strategy is Strategy.MERGE
    assert read(root, merged).fingerprint != read(root, merged.replace(", currency]", "]")).fingerprint


def test_a_merged_row_may_move_unless_its_key_ties_it_to_its_slice(root: Path) -> None:
    tied = read(root, model_text("strategy: merge\nkey: [ORDER_DATE, currency]"))
    loose = read(root, model_text("strategy: merge\nkey: [currency]"))
    assert (tied.moves_rows, loose.moves_rows) == (False, True)
    assert not read(root, model_text("key: [currency]")).moves_rows
    assert set(loose.gate_names) - set(tied.gate_names) == {"one_row_per_key"}
    assert read(root, model_text("key: [order_date]")).fingerprint == read(root, model_text("key: []")).fingerprint


def test_entities_are_kept_apart_where_the_query_carries_their_key_throughout(root: Path) -> None:
    kept = read(root, BUCKETS).entity
    assert kept.is_kept_apart
    assert kept.columns == {"customer_id"}
    lost = read(root, BUCKETS.replace("max(r.rate)", "max(r.rate) / sum(max(r.rate)) OVER ()")).entity
    assert not lost.is_kept_apart


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{key: customer_id}", "{key: customer_id, time: d}", "has a `time`, but the model isn't cut by time"),
        ("{key: customer_id}", "{}", "no input says in which column it carries the entity"),
        ("buckets: 32", "buckets: 32, every: day", "`slices.every` goes with slices of time"),
        ("buckets: 32", "buckets: 32, start: 2025-01-01", "goes with slices of time"),
        ("GROUP BY 1", "WHERE o.d >= :start_date GROUP BY 1", "`:start_date` means a slice"),
    ],
)
def test_what_buckets_have_no_use_for_is_told(root: Path, old: str, new: str, message: str) -> None:
    assert message in problem(root, BUCKETS.replace(old, new)).message


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT customer_id, sum(amount) OVER () AS total FROM raw.orders", "customer_id"),
        ("SELECT upper(customer_id) AS customer_id FROM raw.orders", "isn't, unchanged, the key of a scoped input"),
        ("SELECT CAST(customer_id AS DATE) AS customer_id FROM raw.orders", "isn't, unchanged, the key"),
        ("SELECT date_trunc('hour', customer_id) AS customer_id FROM raw.orders GROUP BY 1", "customer_id"),
        ("SELECT customer_id + 1 AS customer_id FROM raw.orders", "isn't, unchanged, the key"),
    ],
)
def test_buckets_go_one_by_one_where_the_entity_is_not_kept_apart(root: Path, sql: str, why: str) -> None:
    text = BUCKETS.partition("*/")[0].replace(", raw.rates: {}", "") + "*/\n" + sql
    batching = read(root, text).batching
    assert not batching.is_sliceable
    assert why in "; ".join(batching.reasons)


def test_a_start_may_be_written_as_text(root: Path) -> None:
    text = model_text().replace("every: day", "start: '2025-01-31'")
    assert read(root, text).slicing.start == date(2025, 1, 31)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("{raw.orders: {valid: {from: a, to: b}}}", "the key `inputs.raw.orders.valid.key` is missing"),
        ("{raw.orders: {valid: {from: a, to: b, key: []}}}", "`inputs.raw.orders.valid.key` can't be empty"),
        (
            "{raw.orders: {valid: {from: a, to: b, key: [c], gaps: no}}}",
            "`inputs.raw.orders.valid.gaps` must be",
        ),
        (
            "{raw.orders: {time: d, valid: {from: a, to: b, key: [c]}}}",
            "`inputs.raw.orders` has validity windows, and a `time` would leave out those that began earlier",
        ),
        (
            "{raw.orders: {as_of: slice, valid: {from: a, to: b, key: [c]}}}",
            "`inputs.raw.orders` has validity windows, and those tell by themselves what held when",
        ),
        ("{raw.orders: {as_of: month}}", "`inputs.raw.orders.as_of` must be `slice`"),
        (
            "{raw.orders: {as_of: slice, on_change: restate}}",
            "`inputs.raw.orders` is read as it was at each slice's end",
        ),
        ("{raw.orders: {tiem: order_date}}", "unknown key `inputs.raw.orders.tiem` — did you mean time?"),
        ("{raw.orders: {time: order_date, lookback: -1}}", "`inputs.raw.orders.lookback` can't be negative"),
        ("{raw.orders: {time: order_date, lookback: 2 months}}", "`inputs.raw.orders.lookback` can't be `2 months`"),
        ("{raw.orders: {time: order_date, lookahead: 1000000}}", "`inputs.raw.orders.lookahead` can't be more than"),
        ("{raw.orders: {lookback: 1}}", "`inputs.raw.orders` reads slices around its own, but has no `time`"),
        ("{raw.orders: {on_change: rebuild}}", "`inputs.raw.orders.on_change` must be `restate` or `ignore`"),
        ("{orders: {time: order_date}}", "`inputs.orders` must name a table with its namespace"),
        ("{raw.o: {table: raw.orders}}", "`inputs.raw.o` is declared with `table`"),
        ("{o: {table: ../../etc/passwd}}", "`inputs.o.table` must be a table such as `raw.orders`"),
        ("{../../etc/passwd: {}}", "`inputs.../../etc/passwd` must be a table such as `raw.orders`"),
        ("{'`raw`.`orders`': {}}", "`inputs.`raw`.`orders`` must be a table such as `raw.orders`, without paths"),
        ("[raw.orders]", "`inputs` must be a mapping of `key: value`, not a list"),
        ("{raw.orders: order_date}", "`inputs.raw.orders` must be a mapping of `key: value`, not text"),
        ("{'${SCHEMA}.orders': {time: '${COL}'}}", "`inputs.${SCHEMA}.orders` holds `${`"),
    ],
)
def test_inputs_that_cannot_be_are_told_in_words(root: Path, inputs: str, message: str) -> None:
    found = problems(root, model_text().replace(ORDERS, f"inputs: {inputs}"))[0]
    assert found.message.startswith(message)
    assert found.line == 3


def test_lines_of_the_query_are_lines_of_the_file(root: Path) -> None:
    found = problem(root, model_text(sql="SELECT order_date, revenue\nFROM raw.orders\nWHERE (order_date >"))
    assert found.line in (7, 8)


def test_an_undeclared_input_is_told_with_its_line(root: Path) -> None:
    found = problem(root, model_text(sql="SELECT o.order_date\nFROM raw.orders o\nCROSS JOIN raw.secret"))
    assert "raw.secret" in found.message
    assert found.line == 7


def test_problems_of_gates_and_of_the_query_are_told_together(root: Path) -> None:
    found = problems(root, model_text("gates: [rows: {}]", "consumers: [nobody]", sql="SELECT FROM WHERE"))
    assert [p.line for p in found[:2]] == [4, 5]
    assert len(found) == 3


def test_malformed_yaml_is_told_with_the_line_of_the_file(root: Path) -> None:
    assert problem(root, "\n\n/* retcon\nkey: [a\nowner: x\n*/\nSELECT 1").line == 5
    assert problem(root, "/* retcon\nowner: x\n\tkey: [a]\n*/\nSELECT 1").line == 3
    assert problem(root, "/* retcon\nowner: x\nowner: y\n*/\nSELECT 1").line == 3


@pytest.mark.parametrize("yaml", ["- a", "text", "5", "!!python/object/apply:os.system ['false']"])
def test_a_block_that_is_no_mapping_is_refused(root: Path, yaml: str) -> None:
    assert "pydantic" not in problem(root, f"/* retcon\n{yaml}\n*/\n{SQL}").message


def test_a_huge_file_is_refused(root: Path) -> None:
    assert "larger than 1 MB" in problem(root, model_text(sql="SELECT 1 --" + "x" * 1_000_000)).message


def test_a_file_that_is_not_utf8_is_refused(root: Path) -> None:
    path = write(root, model_text())
    path.write_bytes(path.read_bytes() + b"\n-- \xe9\n")
    with pytest.raises(ProjectInvalid, match="UTF-8"):
        read_model(path, root, KNOWN, queries)


OWN = """\
/* retcon
slices: {by: order_date, every: day}
columns: {order_date: date, total: bigint}
inputs: {raw.orders: {time: order_date}, mart.a: {time: order_date, lookback: 1}}
replay: {order: sequential}
*/
SELECT :start_date AS order_date, sum(n) AS total
FROM (SELECT n FROM raw.orders UNION ALL SELECT total FROM mart.a)
"""


def test_a_model_may_read_its_previous_slice(root: Path) -> None:
    model = read(root, OWN)
    assert model.reads_itself
    assert [i.is_own for i in model.inputs] == [False, True]
    assert model.one_by_one == ("it reads its previous slice",)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lookback: 1", "lookback: 0", "what is being computed can't be read"),
        ("mart.a: {time: order_date, lookback: 1}", "mart.a: {}", "what is being computed can't be read"),
        ("lookback: 1", "lookback: 1, as_of: slice", "which is read as it is being built"),
        ("lookback: 1", "lookback: 1, lookahead: 1", "what comes after a slice isn't computed yet"),
        ("lookback: 1", "lookback: 1, on_change: ignore", "restating a slice restates the later ones"),
        ("replay: {order: sequential}", "", "its slices are computed one after the other"),
        (
            "replay: {order: sequential}",
            "replay: {order: sequential}\nstrategy: merge\nkey: [order_date]",
            "with `strategy: merge` rows of earlier runs would stay in what it reads",
        ),
        ("columns: {order_date: date, total: bigint}", "", "whose table isn't there when its first slice is computed"),
    ],
)
def test_what_a_model_cannot_read_of_itself_is_told(root: Path, old: str, new: str, message: str) -> None:
    assert old in OWN
    found = problem(root, OWN.replace(old, new))
    assert message in found.message
    assert found.remedy


def test_an_input_may_be_read_as_it_was_at_each_slices_end(root: Path) -> None:
    text = "/* retcon\nslices: {by: d}\ninputs: {raw.orders: {time: d, as_of: slice}}\n*/\nSELECT d FROM raw.orders"
    model = read(root, text)
    assert model.inputs[0].at_slice_end
    assert model.inputs[0].on_change is OnChange.IGNORE
    assert model.one_by_one == ("raw.orders as of each slice's end",)
    assert model.fingerprint != read(root, text.replace(", as_of: slice", "")).fingerprint
    whole = "/* retcon\ninputs: {raw.orders: {as_of: slice}}\n*/\nSELECT d FROM raw.orders"
    assert "the model isn't cut into slices" in problem(root, whole).message
    buckets = whole.replace("retcon\n", "retcon\nslices: {by: d, buckets: 4}\n").replace("as_of", "key: d, as_of")
    assert "is read as of each slice's end, but the model isn't cut by time" in problem(root, buckets).message


def test_a_model_in_buckets_has_no_previous_slice(root: Path) -> None:
    text = "/* retcon\nslices: {by: d, buckets: 4}\ninputs: {raw.orders: {key: d}, mart.a: {key: d}}\n*/\nSELECT 1 AS d"
    found = problem(root, text)
    assert "is the model itself, which has no previous slice: it isn't cut by time" in found.message
    assert found.remedy == "give the model `slices` by time"


@pytest.mark.parametrize(
    ("slices", "type", "message"),
    [
        ("every: hour", "DATE", "a slice is an hour of order_date, which is a DATE and tells no hours"),
        ("every: day", "string", "slices go by order_date, which is string; a DATE or a TIMESTAMP is needed"),
        ("buckets: 4", "double", "buckets go by order_date, which is double; such values have no bucket"),
    ],
)
def test_a_declared_slice_column_that_cannot_be_cut_so_is_a_problem(
    root: Path, slices: str, type: str, message: str
) -> None:
    text = (
        f"/* retcon\nslices: {{by: order_date, {slices}}}\ncolumns: {{order_date: {type}}}\n"
        f"inputs:\n  raw.orders: {{{'key' if 'buckets' in slices else 'time'}: order_date}}\n*/\n"
        "SELECT order_date FROM raw.orders\n"
    )
    found = problem(root, text)
    assert (found.line, found.message) == (3, message)
    assert found.remedy
