"""Sources known by an `updated` column: what changed, how far the mark goes, and what is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.loads import Found, refusal_of
from retcon.core.models import Replay
from retcon.core.projects import Catalog, Settings, Source
from retcon.core.promises import notes_on_updated, promise_of, seen_of
from retcon.core.slices import Grain, SliceSet
from retcon.core.updates import (
    SliceRows,
    Updates,
    looked_from,
    mark_value,
    marked_moment,
    set_back,
    update_notes,
    updates_of,
)
from tests.core.examples import a_model

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))


def rows(day: int | None, newest: datetime | None = NOON, *, nulls: int = 0, ahead: int = 0) -> SliceRows:
    first, last = (0, -1) if day is None else (day, day)
    return SliceRows(first=first, last=last, rows=1, checksum="x", newest=newest, nulls=nulls, ahead=ahead)


@given(
    held=st.dictionaries(st.integers(0, 400), st.tuples(MOMENTS, st.integers(0, 1), st.integers(0, 1)), max_size=8),
    since=MOMENTS,
)
def test_a_slice_changed_where_a_row_isnt_older_than_the_mark_or_nobody_knows_how_old_it_is(
    held: dict[int, tuple[datetime, int, int]], since: datetime
) -> None:
    found = updates_of([rows(day, n, nulls=u, ahead=a) for day, (n, u, a) in held.items()], Grain.DAY, since)
    recent = {day for day, (newest, nulls, ahead) in held.items() if newest >= since or nulls or ahead}
    assert found.changed.slices == SliceSet.of(Grain.DAY, recent)
    assert found.newest == max((newest for newest, _, _ in held.values()), default=None)
    assert (found.nulls, found.ahead) == (sum(u for _, u, _ in held.values()), sum(a for _, _, a in held.values()))
    assert updates_of([rows(day) for day in held], Grain.DAY, None).changed.slices.ordinals == tuple(sorted(held))


def test_rows_without_a_slice_count_for_the_mark_and_rows_whose_slice_isnt_told_for_everything() -> None:
    found = updates_of([rows(None, nulls=2)], Grain.DAY, NOON)
    assert (bool(found.changed), found.newest, found.nulls) == (False, NOON, 2)
    unknown = SliceRows(first=None, last=None, rows=1, checksum="x", newest=NOON)
    assert updates_of([unknown], Grain.DAY, NOON).changed.everything
    assert not updates_of([unknown], Grain.DAY, NOON + timedelta(microseconds=1)).changed


@given(moment=MOMENTS)
def test_a_mark_comes_back_as_it_was_and_only_for_its_column(moment: datetime) -> None:
    value = mark_value("updated_at", moment)
    assert marked_moment(value, "updated_at") == moment
    assert marked_moment(value, "changed_at") is None


def test_a_digest_of_files_is_no_mark_of_a_column() -> None:
    assert marked_moment("00112233445566778899aabbccddeeff", "updated_at") is None
    assert marked_moment(None, "updated_at") is None
    assert mark_value("updated_at", None) is None


def test_the_trailing_window_is_looked_at_again() -> None:
    assert looked_from(NOON, 3) == NOON - timedelta(days=3)
    assert looked_from(None, 3) is None


@given(known=MOMENTS, newest=st.none() | MOMENTS)
def test_a_source_went_back_where_nothing_in_it_is_as_new_as_the_mark(known: datetime, newest: datetime | None) -> None:
    assert bool(set_back("raw.s", "u", known, newest)) == (newest is None or newest < known)
    assert not set_back("raw.s", "u", None, newest)


def test_rows_that_no_mark_follows_are_counted() -> None:
    seen = Updates(changed=updates_of([], Grain.DAY, None).changed, newest=NOON, nulls=1, ahead=1_200)
    assert list(update_notes("raw.s", "updated_at", seen)) == [
        "raw.s: 1 row without updated_at: looked at by every load",
        "raw.s: 1,200 rows with updated_at in the future: loaded, the watermark goes no further than "
        "2026-01-15 12:00:00",
    ]


def test_models_whose_source_went_back_are_named_with_the_way_on() -> None:
    none = SliceSet(Grain.DAY)
    fine = Found(model="mart.a", stale=none, held=none, late=none)
    back = Found(model="mart.b", stale=none, held=none, late=none, set_back={"raw.s": "raw.s went back"})
    assert refusal_of([fine]) is None
    refusal = refusal_of([fine, back])
    assert refusal is not None
    assert (refusal.message, "left as it is, with its watermarks: mart.b;" in refusal.state) == (
        "raw.s went back",
        True,
    )
    assert 'retcon watermarks reset mart.b --input raw.s --reason "…"' in refusal.next


@pytest.mark.parametrize(
    ("source", "seen", "unseen"),
    [
        (Source(name="s", format="jdbc", updated="u"), "isn't older than the watermark", "deleted rows"),
        (Source(name="s", format="jdbc", updated="u", key=("k",)), "gone or moved are seen", "leave u as it was"),
        (Source(name="s", format="jdbc"), "", "can't see its changes"),
        (Source(name="s", format="delta", path="/d"), "its version", ""),
        (Source(name="s", format="csv", path="/d"), "names, sizes and times", ""),
        (Source(name="s", format="csv", path="s3://b/d"), "", "can't see its changes"),
    ],
)
def test_every_source_says_what_loads_see_of_it(source: Source, seen: str, unseen: str) -> None:
    assert seen in seen_of(source)
    assert unseen in seen_of(source)


def test_what_is_looked_at_isnt_pinned_but_for_delta() -> None:
    assert "compared by u" in promise_of(Source(name="s", format="jdbc", updated="u"))
    assert promise_of(Source(name="s", format="delta", path="/d", updated="u")) == "pinned by its version"


def test_what_is_declared_and_means_nothing_is_told() -> None:
    sources = [
        Source(name="raw.ice", updated="u"),
        Source(name="raw.key", format="jdbc", key=("k",)),
        Source(name="raw.all", format="jdbc", key=("k",), updated="u"),
        Source(name="raw.mark", format="jdbc", updated="u"),
        Source(name="raw.else", updated="u"),
    ]
    catalog = Catalog(name="lake", uri="sqlite:///x", warehouse="w")
    settings = Settings(name="p", root="/p", catalog=catalog, sources={source.name: source for source in sources})
    replay = Replay(reprocess_days=3)
    models = [
        a_model("mart.a", "raw.ice", "raw.key", "raw.all", replay=replay),
        a_model("mart.b", "raw.mark", "raw.ice", replay=replay),
    ]
    assert [note.partition(": it ")[0].partition(": loads")[0] for note in notes_on_updated(models, settings)] == [
        "raw.ice: `updated`",
        "raw.key: `key`",
        "mart.a: `replay.reprocess`: no input of it is known by an `updated` column alone",
    ]
