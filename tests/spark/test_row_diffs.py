"""Row diffs: against a plain oracle, and of a run before and after its publish and its rollback."""

from __future__ import annotations

import csv
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from retcon.cli.main import run
from retcon.core.hand_checks import InputRows, Links, TraceRequest
from retcon.core.models import Model, Slicing
from retcon.core.queries import Batching, Query
from retcon.core.reads import Read
from retcon.core.row_diffs import RowCounts, RowDiff, RowDiffRequest, RowKind, RowPair, Sides
from retcon.core.slices import Grain, SliceSet
from retcon.flow.apply import Until
from retcon.lakehouse.row_diffs import RowDiffs
from retcon.lakehouse.traces import Traces
from tests.shops import Shop

pytestmark = pytest.mark.spark

FIRST = date(2026, 1, 1)
CASES = 120
EUR_THEN = "order_date <= DATE '2026-01-03' AND currency = 'EUR'"
SCHEMA = (
    "STRUCT<d: DATE, k: STRING, a: STRING, n: BIGINT, x: DOUBLE, tags: ARRAY<STRING>, m: MAP<STRING, INT>, "
    "loaded: BIGINT>"
)
NAMES = ("d", "k", "a", "n", "x", "tags", "m", "loaded")
Values = tuple[Any, ...]
"""k, a, n, x, tags, m."""


# ── the oracle ────────────────────────────────────────────────────────────────────────────────────────────────────


def value_of(x: Any) -> Any:
    """What counts as equal: floats within the tolerance, NaN as NaN, 0.0 as -0.0, maps in any order."""
    if isinstance(x, float):
        return "nan" if math.isnan(x) else x if math.isinf(x) else float(f"{x:.6g}") + 0.0
    if isinstance(x, dict):
        return tuple(sorted(x.items()))
    return tuple(x) if isinstance(x, list) else x


def plain(row: Values) -> Values:
    return tuple(map(value_of, row))


def multiset(old: Iterable[Values], new: Iterable[Values]) -> Counter[tuple[RowKind, Values]]:
    before, now = Counter(map(plain, old)), Counter(map(plain, new))
    found = Counter({(RowKind.ADDED, row): n for row, n in (now - before).items()})
    return found + Counter({(RowKind.REMOVED, row): n for row, n in (before - now).items()})


def by_key(old: Sequence[Values], new: Sequence[Values]) -> Counter[tuple[Any, ...]]:
    groups: dict[Any, tuple[list[Values], list[Values]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((old, new)):
        for row in rows:
            groups[row[0]][side].append(row)
    found: Counter[tuple[Any, ...]] = Counter()
    for key, (before, now) in groups.items():
        if key is None or len(before) > 1 or len(now) > 1:
            found += multiset(before, now)
        elif before and now:
            unlike = [name for name, a, b in zip(NAMES[1:], plain(before[0]), plain(now[0]), strict=False) if a != b]
            if unlike:
                found[RowKind.CHANGED, key, tuple(unlike)] += 1
        else:
            found += multiset(before, now)
    return found


# ── what Spark finds ──────────────────────────────────────────────────────────────────────────────────────────────


class Frames:
    """Two frames in the place of reads."""

    def __init__(self, old: DataFrame, new: DataFrame) -> None:
        self._frames = {"old": old, "new": new}

    def frame(self, read: Read) -> DataFrame:
        return self._frames[read.table]


def frame_of(spark: SparkSession, cases: Sequence[Sequence[Values]], loaded: int) -> DataFrame:
    rows = [
        dict(zip(NAMES, ((FIRST + timedelta(days=day)).isoformat(), *row, loaded), strict=True))
        for day, case in enumerate(cases)
        for row in case
    ]
    return spark.sql(f"SELECT inline(from_json(:rows, 'ARRAY<{SCHEMA}>'))", args={"rows": json.dumps(rows)})


def request_of(key: tuple[str, ...], days: int = CASES, **more: Any) -> RowDiffRequest:
    model = Model(
        name="mart.x",
        path="models/mart/x.sql",
        query=Query(text="", references=()),
        batching=Batching(),
        slicing=Slicing(by="d"),
        inputs=(),
        fingerprint="",
        key=key,
        volatile=("loaded",),
    )
    slices = SliceSet.span(Grain.DAY, Grain.DAY.ordinal(FIRST), Grain.DAY.ordinal(FIRST) + days - 1)
    old, new = (Read(table=side, snapshot_id=1, by="d", slices=slices) for side in ("old", "new"))
    sides = Sides(old=old, new=new, slices=slices)
    return RowDiffRequest(model=model, sides=sides, **{"seed": "s", "limit": 100_000, **more})


def told(diff: RowDiff) -> dict[str, Counter[tuple[Any, ...]]]:
    """Every row of the sample, by slice, as the oracle has it."""
    found: dict[str, Counter[tuple[Any, ...]]] = defaultdict(Counter)
    for pair in diff.sample:
        if pair.kind is RowKind.CHANGED:
            found[pair.slice][pair.kind, pair.key["k"], pair.differs] += 1
        else:
            row = pair.new if pair.new is not None else pair.old
            assert row is not None
            found[pair.slice][pair.kind, tuple(map(parsed, NAMES[1:-1], (row[name] for name in NAMES[1:-1])))] += (
                pair.times
            )
    return found


def parsed(name: str, text: str | None) -> Any:
    """A value of a sample as the oracle has it."""
    if text is None:
        return None
    match name:
        case "n":
            return int(text)
        case "x":
            return value_of(float(text.replace("Infinity", "inf")))
        case "tags":
            return tuple(json.loads(text))
        case "m":
            return tuple(sorted((each["key"], each["value"]) for each in json.loads(text)))
        case _:
            return text


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    folder: Path = tmp_path_factory.mktemp("rows")
    return Shop(folder / "shop", "sqlite:///.retcon/lake.db").workspace.spark


def drawn(chance: random.Random) -> Values:
    noisy = 1.5 * (1 + chance.choice([0, 1e-13, 5e-10, -5e-10]))
    return (
        chance.choice([None, "p", "q", "q", "r", "s", "t"]),
        chance.choice([None, "", "a", "b"]),
        chance.choice([None, 0, 1, 10**15]),
        chance.choice([None, noisy, noisy, 0.0, -0.0, 1.25, 1e12, float("nan"), float("inf"), -float("inf")]),
        chance.choice([None, [], ["a"], ["a", None]]),
        chance.choice([None, {}, {"u": 1, "v": 2}, {"v": 2, "u": 1}, {"u": 1}]),
    )


def changed_by_chance(rows: Sequence[Values], chance: random.Random) -> list[Values]:
    found: list[Values] = []
    for row in rows:
        match chance.randrange(5):
            case 0:
                at = chance.randrange(1, 6)
                found.append((*row[:at], drawn(chance)[at], *row[at + 1 :]))
            case 1:
                continue
            case 2:
                noise = row[3] * (1 + 2e-10) if isinstance(row[3], float) else row[3]
                found.append((*row[:3], noise, *row[4:]))
            case _:
                found.append(row)
    found += [drawn(chance) for _ in range(chance.randrange(3))]
    chance.shuffle(found)
    return found


def test_the_diff_is_what_an_oracle_in_plain_python_finds(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(20260122)
    old = [[drawn(chance) for _ in range(chance.randrange(7))] for _ in range(CASES)]
    new = [changed_by_chance(rows, chance) for rows in old]
    frames = Frames(frame_of(spark, old, 1), frame_of(spark, new, 2))
    for key, oracle in ((("d", "k"), by_key), ((), multiset)):
        file = tmp_path / f"{len(key)}.parquet"
        diff = RowDiffs(frames).row_diff(request_of(key, out=str(file)))
        found = told(diff)
        for day, (before, now) in enumerate(zip(old, new, strict=True)):
            label = (FIRST + timedelta(days=day)).isoformat()
            assert found.get(label, Counter()) == oracle(before, now), (label, before, now)
        assert diff.written == len(diff.sample) == pq.read_table(file).num_rows
        counted = {
            day: Counter({kind: sum(n for what, n in rows.items() if what[0] is kind) for kind in RowKind})
            for day, rows in found.items()
        }
        assert {slice.label: counts for slice, counts in diff.counts.items()} == {
            day: RowCounts(**{kind.value: n[kind] for kind in RowKind}) for day, n in counted.items()
        }
        assert (diff.key, bool(diff.why_no_key)) == (key, not key)
        assert "loaded" not in {column.name for column in diff.columns}


def test_a_tolerance_of_nothing_takes_every_bit_for_a_change_and_a_sample_is_the_same_each_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [[(str(n), "=cmd()", n, n / 3, None, None) for n in range(40)]]
    noisy = [[(k, a, n, x * (1 + 4e-16), tags, m) for k, a, n, x, tags, m in rows[0][1:]]]
    frames = Frames(frame_of(spark, rows, 1), frame_of(spark, noisy, 1))
    asked = request_of(("d", "k"), days=1, limit=5)
    assert RowDiffs(frames).row_diff(asked).total == RowCounts(removed=1)
    file = tmp_path / "x.csv"
    exact = RowDiffs(frames).row_diff(replace(asked, tolerance=0.0, out=str(file)))
    assert exact.total.changed >= 30, "most thirds move with their last bit"
    assert [column.name for column in exact.columns if column.changed] == ["x"]
    turned = Frames(
        *(each.repartition(3, "n").orderBy("x") for each in (frame_of(spark, rows, 1), frame_of(spark, noisy, 1)))
    )
    assert RowDiffs(turned).row_diff(replace(asked, tolerance=0.0)).sample == exact.sample
    assert RowDiffs(turned).row_diff(replace(asked, tolerance=0.0, seed="t")).sample != exact.sample
    with file.open(newline="") as opened:
        listed = list(csv.DictReader(opened))
    assert len(listed) == exact.written == exact.total.differing
    assert {row["old_a"] for row in listed} == {"'=cmd()"}, "no spreadsheet computes it"
    assert [row["k"] for row in listed] == sorted(row["k"] for row in listed)


def test_doubles_inside_others_count_to_the_last_bit_only_where_no_tolerance_is_asked_for(spark: SparkSession) -> None:
    def frame(x: str) -> DataFrame:
        return spark.sql(f"SELECT DATE '2026-01-01' AS d, 1 AS k, named_struct('x', {x}) AS st")

    frames, asked = Frames(frame("0.1D + 0.2D"), frame("0.3D")), request_of(("d", "k"), days=1)
    assert RowDiffs(frames).row_diff(asked).total == RowCounts()
    assert RowDiffs(frames).row_diff(replace(asked, tolerance=0.0)).total == RowCounts(changed=1)


def test_columns_that_came_went_or_have_another_type_are_compared_as_far_as_they_can_be(
    spark: SparkSession, tmp_path: Path
) -> None:
    old = spark.sql(
        "SELECT DATE '2026-01-01' AS d, CAST(id AS INT) AS kind, CAST(id AS INT) AS n, 'x' AS gone, "
        "named_struct('p', id) AS s, X'00FF' AS b, TIMESTAMP '2026-01-01 12:00:00 UTC' AS t, "
        "TIMESTAMP_NTZ '2026-01-01 12:00:00' AS wall, CAST(id AS DECIMAL(9, 2)) AS m, CAST(id AS STRING) AS retyped "
        "FROM range(3)"
    )
    new = spark.sql(
        "SELECT DATE '2026-01-01' AS d, id AS KIND, id AS n, named_struct('p', id, 'q', if(id = 1, 'q', NULL)) AS s, "
        "X'00FF' AS b, TIMESTAMP '2026-01-01 12:00:00 UTC' AS t, TIMESTAMP_NTZ '2026-01-01 12:00:00' AS wall, "
        "CAST(id AS DECIMAL(11, 2)) AS m, id AS retyped, if(id = 2, 'new', NULL) AS fresh FROM range(3)"
    )
    parquet, text = tmp_path / "x.parquet", tmp_path / "x.csv"
    asked = request_of(("d", "kind"), days=1)
    diff = RowDiffs(Frames(old, new)).row_diff(replace(asked, out=str(parquet)))
    noted = {column.name: (column.changed, column.note) for column in diff.columns}
    assert noted == {
        "d": (0, ""), "KIND": (0, "was int"), "n": (0, "was int"), "b": (0, ""), "t": (0, ""), "wall": (0, ""),
        "m": (0, "was decimal(9,2)"), "retyped": (0, "was string"), "fresh": (1, "added"), "gone": (3, "removed"),
        "s": (1, "was struct<p:bigint>"),
    }  # fmt: skip
    assert {pair.key["KIND"]: pair.differs for pair in diff.sample} == {
        "0": ("gone",), "1": ("s", "gone"), "2": ("fresh", "gone"),
    }  # fmt: skip
    kept = pq.read_table(parquet)
    assert kept.column_names[:5] == ["slice", "kind", "times", "d", "KIND_"], "names that are taken get a _"
    noon = datetime(2026, 1, 1, 12)
    assert kept.column("new_t").to_pylist() == [noon.replace(tzinfo=UTC)] * 3
    assert (kept.column("new_wall")[0].as_py(), kept.column("old_b")[0].as_py()) == (noon, b"\x00\xff")
    assert str(kept.schema.field("new_m").type) == "decimal128(11, 2)"
    assert json.loads(kept.column("new_s")[1].as_py()) == {"p": 1, "q": "q"}
    RowDiffs(Frames(old, new)).row_diff(replace(asked, model=replace(asked.model, key=()), out=str(text)))
    with text.open(newline="") as opened:
        listed = list(csv.DictReader(opened))
    assert Counter(row["kind"] for row in listed) == {"added": 3, "removed": 3}
    assert {row["new_b"] for row in listed} == {"", "00FF"}


def test_an_inputs_columns_may_be_called_what_they_like_where_its_rows_are_looked_up(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT DATE '2026-01-01' AS d, id AS k, 'p' AS place, 'o' AS ordinal, 'v' AS v0, 't' AS texts, 'n' AS total, "
        "'a' AS at FROM range(3)"
    )
    pair = RowPair(slice="2026-01-01", kind=RowKind.ADDED, times=1, key={}, old=None, new={"k": "2"}, differs=())
    request = TraceRequest(
        read=Read(table="new", snapshot_id=1, by=None, slices=None),
        links=Links(columns={"k": "k"}, by_slice=True),
        time="d",
        grain=Grain.DAY,
        rows=(pair,),
    )
    [found] = Traces(Frames(frame, frame)).trace(request)
    values = {"place": "p", "ordinal": "o", "v0": "v", "texts": "t", "total": "n", "at": "a"}
    assert found == InputRows(total=1, rows=({"d": "2026-01-01", "k": "2", **values},))


# ── of a run ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rows_of_a_run_are_compared_before_and_after_its_publish_and_after_its_rollback(
    shop: Shop, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def retcon(*words: str, code: int = 0) -> Any:
        shop.close()
        capsys.readouterr()
        assert run([*words, "--project", str(shop.root), "--json"]) == code, capsys.readouterr()
        document = json.loads(capsys.readouterr().out)
        return document.get("result") or document["error"]

    shop.open_for_business()
    # One order more, one less, EUR other by a tenth, and a column that wasn't there.
    shop.edit("mart.orders_usd", "o.amount * r.rate", "o.amount * r.rate * if(o.currency = 'EUR', 1.1, 1)")
    shop.edit("mart.orders_usd", "AS amount_usd\n", "AS amount_usd, o.customer = 'c1' AS first\n")
    shop.sql("DELETE FROM raw.orders WHERE order_id = 8")
    shop.sql("INSERT INTO raw.orders VALUES (900, DATE '2026-01-02', 'USD', 'late <b>', 7)")
    plan = shop.plan("mart.orders_usd", start="2026-01-01", end="2026-01-03", downstream=False)
    refused = retcon("diff", shop.open(plan).id, "--rows", code=1)
    assert "aren't staged" in refused["message"]
    shop.apply(plan, Until.PROVEN)

    page, table = tmp_path / "x.html", tmp_path / "x.parquet"
    asked = ("diff", plan.id, "--rows", "--limit", "100")
    (staged,) = retcon(*asked, "--out", str(page))["models"]
    assert staged["rows"] == {"changed": 35, "added": 1, "removed": 1}, "a new column changes every row"
    assert {each["column"]: (each["changed"], each["note"]) for each in staged["columns"] if each["changed"]} == {
        "amount_usd": (12, None),
        "first": (35, "added"),
    }
    shown = {pair["key"]["order_id"]: pair for pair in staged["sample"]}
    assert (shown["900"]["kind"], shown["900"]["old"], shown["900"]["new"]["customer"]) == ("added", None, "late <b>")
    assert (shown["8"]["kind"], shown["8"]["new"]) == ("removed", None)
    assert shown["0"]["differs"] == ["amount_usd", "first"]
    html = page.read_text()
    assert "late &lt;b&gt;" in html
    assert not any(word in html for word in ("late <b>", "<script", "http:", "https:", "<link", "src="))
    again = retcon(*asked, "--out", str(page), code=2)
    assert "the file exists" in again["message"]

    drawn = retcon("sample", plan.id, "--rows", "36")["models"][0]
    orders, rates = drawn["inputs"]
    assert (orders["found_by"], orders["why_not"]) == ("order_date, order_id", None)
    assert "has no column order_id" in rates["why_not"]
    for row in drawn["rows"]:
        found = row["inputs"]["raw.orders"]
        assert found["total"] == (0 if row["kind"] == "removed" else 1)
        assert all(each["order_id"] == row["key"]["order_id"] for each in found["rows"])
    assert retcon("sample", plan.id, "--confirm", code=2)["message"]
    said = ("--confirm", "--by", "Ada L.", "--note", "as the ticket says", "--out", str(tmp_path / "s.html"))
    few = retcon("sample", plan.id, "--rows", "6", *said)
    assert few["confirmed"][0]["rows"] == 6
    assert "from raw.orders" in (tmp_path / "s.html").read_text()
    (checked,) = retcon("show", plan.id)["checked"]
    assert (checked["by"], checked["note"], checked["seed"]) == ("Ada L.", "as the ticket says", plan.id)
    assert checked["keys"] == [row["hash"] for row in drawn["rows"]][:6], "the same seed draws the same rows"
    assert not any("late <b>" in json.dumps(dict(event.body)) for event in shop.workspace.ledger.events(plan.id))

    (why,) = retcon("diff", plan.id, "--why", "--slices", "5")["models"]
    assert why["totals"]["rows"] == dict.fromkeys(("change", "code", "inputs", "chance", "rest"), "0") | {
        "old": "36",
        "new": "36",
    }
    [(euros,)] = shop.sql(f"SELECT sum(amount_usd) FROM mart.orders_usd WHERE {EUR_THEN}")
    money = {name: Decimal(value) for name, value in why["totals"]["sum(amount_usd)"].items()}
    assert (round(money["code"], 2), money["inputs"]) == (round(euros / 10, 2), 7 - 20), "EUR; one order for another"
    assert (money["chance"], money["rest"]) == (0, 0)
    assert [each["rows_unlike_again"] for each in why["slices"]] == [0, 0, 0]

    shop.apply(plan)
    (later,) = retcon("diff", plan.id, "--why", "--slices", "5")["models"]
    assert later["totals"] == why["totals"], "from what the run before consumed, whatever stands now"
    assert [each["notes"] for each in later["slices"]] == [[], [], ["its inputs are as they were"]]
    shop.sql("INSERT INTO mart.orders_usd SELECT * FROM mart.orders_usd WHERE order_date = DATE '2026-01-07'")
    (published,) = retcon(*asked, "--out", str(table), "--model", "mart.orders_usd")["models"]
    assert {**published, "written": None} == staged
    written = pq.read_table(table)
    assert written.num_rows == published["written"] == 37
    assert written.column_names[:5] == ["slice", "kind", "times", "order_date", "order_id"]
    published_run = shop.workspace.ledger.run(plan.id)
    assert published_run is not None
    shop.rollback(published_run)
    (undone,) = retcon(*asked)["models"]
    assert undone == staged

    # Once the retention is over, what was before is gone.
    shop.sql("ALTER TABLE mart.orders_usd DROP TAG `retcon_before_" + plan.id + "`")
    shop.sql(f"ALTER TABLE mart.orders_usd DROP BRANCH `retcon_{plan.id}`")
    shop.sql(
        "CALL lake.system.expire_snapshots(table => 'mart.orders_usd', older_than => TIMESTAMP '2100-01-01', "
        "retain_last => 1)"
    )
    gone = retcon(*asked, code=1)
    assert "expired" in gone["message"]
    assert "14 days" in gone["state"]
