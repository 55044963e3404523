"""Random queries, run by SQLite: where retcon says so, a slice comes out the same alone and in a wave.

Days are whole numbers here. Tables `a` and `b` are scoped by `d`; `c` is read whole.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retcon.core.models import Input, Slicing
from retcon.core.queries import patched
from retcon.project.queries import read_query

DAYS = range(7)


@dataclass
class Writer:
    """Writes queries that return d, k and x, most of them with the days held together somehow."""

    random: Random
    aliases: int = 0
    common_tables: list[tuple[str, str]] = field(default_factory=list)

    def query(self) -> str:
        sql = self.select(2)
        if self.chance(0.15):
            sql += f" {self.pick('UNION ALL', 'UNION', 'EXCEPT', 'INTERSECT')} {self.select(1)}"
        ctes = ", ".join(f"{name} AS ({body})" for name, body in self.common_tables)
        return f"WITH {ctes} {sql}" if ctes else sql

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def source(self, depth: int) -> tuple[str, str]:
        self.aliases += 1
        alias = f"t{self.aliases}"
        if depth and self.chance(0.25):
            return f"({self.select(depth - 1)}) {alias}", alias
        if depth and self.chance(0.15):
            body = self.select(depth - 1)
            name = f"w{len(self.common_tables)}"
            self.common_tables.append((name, body))
            return f"{name} {alias}", alias
        return f"raw.{self.pick('a', 'a', 'b', 'b', 'c')} AS {alias}", alias

    def near(self, ours: list[str], theirs: list[str]) -> str:
        """A condition between two sides."""
        left, right = f"{self.pick(*ours)}.d", f"{self.pick(*theirs)}.d"
        days = self.random.randint(0, 2)
        return self.pick(
            f"{left} = {right}",
            f"{left} = {right}",
            f"{left} = {right}",
            f"{right} BETWEEN {left} - {days} AND {left}",
            f"{right} = {left} - {days}",
            f"{right} >= {left} - {days}",
            f"{right} <= {left}",
            f"({left} = {right} OR {self.pick(*ours)}.k = {self.pick(*theirs)}.k)",
            f"NOT {left} = {right}",
            f"{self.pick(*ours)}.k = {self.pick(*theirs)}.k",
            f"{self.pick(*ours)}.x = {right}",
        )

    def conditions(self, ours: list[str], theirs: list[str]) -> str:
        return " AND ".join(self.near(ours, theirs) for _ in range(self.random.randint(1, 2)))

    def joins(self, depth: int) -> tuple[str, list[str], bool]:
        """FROM, the aliases in it, and whether `d` has been merged by USING."""
        sql, alias = self.source(depth)
        aliases, merges = [alias], self.chance(0.15)
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            other, alias = self.source(depth)
            kind = self.pick("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN")
            if merges:
                sql += f" {kind} {other} USING (d)"
            elif self.chance(0.1):
                sql += f" CROSS JOIN {other}"
            elif self.chance(0.15):
                third, last = self.source(depth)
                inner = f"{other} {self.pick('JOIN', 'LEFT JOIN')} {third} ON {self.conditions([alias], [last])}"
                sql += f" {kind} ({inner}) ON {self.conditions(aliases, [alias, last])}"
                aliases.append(last)
            else:
                sql += f" {kind} {other} ON {self.conditions(aliases, [alias])}"
            aliases.append(alias)
        return sql, aliases, merges and len(aliases) > 1

    def inner(self, aliases: list[str], depth: int) -> str:
        sql, alias = self.source(depth - 1)
        where = f" WHERE {self.conditions([alias], aliases)}" if self.chance(0.8) else ""
        outside, no = self.pick(*aliases), self.pick("", "NOT ")
        return self.pick(
            f"{no}EXISTS (SELECT 1 FROM {sql}{where})",
            f"{outside}.d {no}IN (SELECT {alias}.d AS q FROM {sql}{where})",
            f"({outside}.d, {outside}.k) {no}IN (SELECT {alias}.d AS q, {alias}.k AS w FROM {sql}{where})",
            f"{outside}.d {no}IN (SELECT {alias}.d AS q FROM {sql}{where} GROUP BY {alias}.d HAVING count(*) > 1)",
            f"{outside}.x < (SELECT count(*) AS n FROM {sql}{where})",
        )

    def select(self, depth: int) -> str:
        sql, aliases, is_merged = self.joins(depth)
        d = "d" if is_merged and self.chance(0.7) else f"{self.pick(*aliases)}.d"
        if self.chance(0.1):
            d = f"coalesce({d}, {self.pick(*aliases)}.d)"
        k, x = f"{self.pick(*aliases)}.k", f"{self.pick(*aliases)}.x"
        conditions = [f"{x} > 0"] if self.chance(0.2) else []
        if depth and self.chance(0.3):
            conditions.append(self.inner(aliases, depth))
        if self.chance(0.1):
            conditions.append(self.pick(f"{aliases[0]}.d >= :start_date", f"{aliases[-1]}.d <= :end_date"))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        distinct = self.pick("", "", "", "DISTINCT ")
        plain = f"SELECT {distinct}{d} AS d, {k} AS k, {{}} AS x FROM {sql}{where}"
        days = self.random.randint(0, 2)
        return self.pick(
            plain.format(x),
            plain.format(x),
            plain.format(f"sum({x})") + f" GROUP BY {d}, {k}",
            f"SELECT {d} AS d, count(*) AS k, sum({x}) AS x FROM {sql}{where} GROUP BY {d}",
            f"SELECT max({d}) AS d, {k} AS k, sum({x}) AS x FROM {sql}{where} GROUP BY {k}",
            plain.format(f"sum({x}) OVER (PARTITION BY {d})"),
            plain.format(f"sum({x}) OVER (PARTITION BY {k})"),
            plain.format(f"dense_rank() OVER (PARTITION BY {d}, {k} ORDER BY {x})"),
            plain.format(
                f"sum({x}) OVER (PARTITION BY {k} ORDER BY {d} RANGE BETWEEN {days} PRECEDING AND CURRENT ROW)"
            ),
        )


@dataclass(frozen=True, kw_only=True)
class Lake:
    """Tables in memory, read through the scope of some slices."""

    connection: sqlite3.Connection
    rows: dict[str, list[tuple[int, int, int]]]
    inputs: tuple[Input, ...]

    def rows_by_day(self, sql: str, slices: Collection[int]) -> Counter[tuple[object, ...]]:
        for declared in self.inputs:
            reach = range(-declared.lookback, declared.lookahead + 1)
            seen = {slice + days for slice in slices for days in reach}
            rows = [row for row in self.rows[declared.table] if declared.time is None or row[0] in seen]
            self.connection.execute(f"DROP TABLE IF EXISTS {declared.name}")
            self.connection.execute(f"CREATE TABLE {declared.name} (d INT, k INT, x INT)")
            self.connection.executemany(f"INSERT INTO {declared.name} VALUES (?, ?, ?)", rows)
        edges = {"start_date": min(slices), "end_date": max(slices)}
        return Counter(self.connection.execute(sql, edges).fetchall())


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    yield connection
    connection.close()


def declared_inputs(sql: str, random: Random) -> tuple[Input, ...]:
    reach = {table: (random.choice([0, 0, 1, 2]), random.choice([0, 0, 1])) for table in "ab"}
    found = re.findall(r"raw\.(\w) AS (\w+)", sql)
    return tuple(
        Input(name=alias, table=f"raw.{table}")
        if table == "c"
        else Input(name=alias, table=f"raw.{table}", time="d", lookback=reach[table][0], lookahead=reach[table][1])
        for table, alias in found
    )


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_a_slice_is_the_same_alone_and_in_a_wave(connection: sqlite3.Connection, seed: int) -> None:
    random = Random(seed)
    sql = Writer(random).query()
    inputs = declared_inputs(sql, random)
    read = read_query(sql, model="mart.m", inputs=inputs, slicing=Slicing(by="d"))
    if read.problems or not read.batching.is_sliceable:
        return
    text = patched(read.query, {declared.name: declared.name for declared in inputs})
    for _ in range(3):
        rows = {f"raw.{t}": [_row(random) for _ in range(random.randint(3, 14))] for t in "abc"}
        lake = Lake(connection=connection, rows=rows, inputs=inputs)
        first = random.choice(DAYS)
        slices = range(first, first + random.randint(2, 4))
        wave = lake.rows_by_day(text, slices)
        for slice in slices:
            assert _of(slice, lake.rows_by_day(text, [slice])) == _of(slice, wave), (sql, slice, slices)


def _row(random: Random) -> tuple[int, int, int]:
    return random.choice(DAYS), random.randint(0, 2), random.randint(-1, 3)


def _of(slice: int, rows: Counter[tuple[object, ...]]) -> Counter[tuple[object, ...]]:
    return Counter({row: times for row, times in rows.items() if row[0] == slice})


def test_many_of_the_random_queries_are_sliceable() -> None:
    """Else the test above would show nothing."""
    found: Counter[bool] = Counter()
    for seed in range(100):
        random = Random(seed)
        sql = Writer(random).query()
        inputs = declared_inputs(sql, random)
        read = read_query(sql, model="mart.m", inputs=inputs, slicing=Slicing(by="d"))
        found[not read.problems and read.batching.is_sliceable] += 1
    assert found[True] > 10
    assert found[False] > 20
