"""Models, slices and plans for the tests of `core`, made by hand or drawn by Hypothesis."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any

from hypothesis import strategies as st

from retcon.core.graphs import Graph
from retcon.core.models import Input, Model, OnChange, Slicing
from retcon.core.queries import Batching, Query
from retcon.core.slices import Grain, SliceSet
from retcon.core.tables import Column, PartitionField, TableContents, TableFacts, TableFile

DAY = Grain.DAY


def day(text: str) -> int:
    """The ordinal of a day."""
    return DAY.parse(text)


def days(text: str) -> SliceSet:
    """Slices as people write them."""
    return SliceSet.parse(DAY, text)


def of(*ordinals: int) -> SliceSet:
    return SliceSet.of(DAY, ordinals)


def an_input(table: str, time: str | None = "d", *, name: str | None = None, **more: Any) -> Input:
    """An input with the default of the design: restate with a time, ignore without."""
    more.setdefault("on_change", OnChange.RESTATE if time else OnChange.IGNORE)
    return Input(name=name or table, table=table, time=time, **more)


def a_model(name: str, *inputs: Input | str, by: str = "d", start: date | None = None, **more: Any) -> Model:
    """A model that reads these inputs; its SQL doesn't matter."""
    declared = tuple(an_input(i) if isinstance(i, str) else i for i in inputs)
    more.setdefault("query", Query(text="SELECT 1", references=()))
    more.setdefault("batching", Batching())
    return Model(
        name=name,
        path=f"models/{name.replace('.', '/')}.sql",
        slicing=Slicing(by=by, start=start),
        inputs=declared,
        fingerprint=more.pop("fingerprint", f"code of {name}"),
        **more,
    )


def a_graph(*models: Model) -> Graph:
    return Graph.of(models)


def facts(
    name: str,
    columns: Iterable[tuple[str, str]] = (("d", "date"),),
    *,
    by: Iterable[tuple[str, str]] = (("d", "identity"),),
    snapshot_id: int | None = 1,
) -> TableFacts:
    return TableFacts(
        name=name,
        uuid=f"uuid of {name}",
        snapshot_id=snapshot_id,
        schema_id=0,
        spec_id=0,
        columns=tuple(Column(name=column, type=kind) for column, kind in columns),
        partitioning=tuple(PartitionField(column=column, transform=transform) for column, transform in by),
    )


def a_file(path: str, first: int | None, last: int | None = None, **more: Any) -> TableFile:
    return TableFile(
        path=path,
        rows=more.pop("rows", 10),
        bytes=more.pop("bytes", 100),
        first=first,
        last=first if last is None else last,
        **more,
    )


def held(slices: SliceSet, *, bytes: int = 100, null_rows: int = 0) -> TableContents:
    """One file a slice."""
    return TableContents(
        grain=DAY, files=tuple(a_file(f"f{o}", o, bytes=bytes) for o in slices.ordinals), null_rows=null_rows
    )


# ── drawn ─────────────────────────────────────────────────────────────────────────────────────────────────────────

# Wide enough for leap days, year ends and the years that strftime would print with fewer than four digits.
ORDINALS = st.integers(min_value=DAY.ordinal(date(1, 1, 3)), max_value=DAY.ordinal(date(9999, 12, 29)))
NEAR = st.integers(min_value=0, max_value=40)
"""Ordinals close to one another, so that sets overlap."""
NEAR_SETS = st.sets(NEAR, max_size=20).map(lambda found: SliceSet.of(DAY, found))
REACHES = st.integers(min_value=0, max_value=5)


@st.composite
def slice_sets(draw: st.DrawFn, most: int = 30) -> SliceSet:
    """Some ranges and some loners, anywhere in the calendar."""
    ordinals: set[int] = set()
    for _ in range(draw(st.integers(0, 4))):
        first = draw(ORDINALS)
        last = min(first + draw(st.integers(0, most // 4)), DAY.ordinal(date(9999, 12, 29)))
        ordinals.update(range(first, last + 1))
    return SliceSet.of(DAY, ordinals)


DATES = st.one_of(
    st.dates(max_value=date(9999, 12, 30)),
    st.dates(min_value=date(1999, 12, 1), max_value=date(2001, 3, 31)),
    st.sampled_from([date(y, m, d) for y in (1900, 2000, 2024, 2025) for m, d in ((2, 28), (3, 1), (12, 31), (1, 1))]),
)


def all_days(first: date, last: date) -> list[date]:
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]
