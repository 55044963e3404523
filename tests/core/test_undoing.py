"""Which way a table goes back: decided from what landed since."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from retcon.core.evolution import changed_columns
from retcon.core.runs import Replaced, RunTable
from retcon.core.slices import Grain, SliceSet
from retcon.core.tables import Aftermath, Changed, Column, Landing
from retcon.core.undoing import Blocked, Undo, Way, copies, standing, way_back

PUBLISHED, BEFORE = 100, 50
COLUMNS = (Column(name="d", type="date", id=1), Column(name="n", type="int", id=2))

ordinals = st.sets(st.integers(0, 9), max_size=4)
slice_sets = ordinals.map(lambda o: SliceSet.of(Grain.DAY, o))
names = st.none() | st.sampled_from(["x", "y"])


@st.composite
def landings(draw: st.DrawFn) -> tuple[Landing, ...]:
    changes = draw(st.lists(st.tuples(slice_sets, st.booleans(), names, names), max_size=5))
    return tuple(
        Landing(
            snapshot_id=101 + at,
            operation="append",
            changed=Changed(slices=slices, everything=everything),
            run=run,
            undoes=None if run else undoes,
        )
        for at, (slices, everything, run, undoes) in enumerate(changes)
    )


def table(base: int | None = BEFORE, replaces: Replaced | None = None) -> RunTable:
    return RunTable(
        table="mart.a", uuid="u", schema_id=0, spec_id=0, base_snapshot=base, made=False,
        published_snapshot=PUBLISHED, replaces=replaces,
    )  # fmt: skip


def after(*landed: Landing, before: int | None = BEFORE) -> Aftermath:
    current = PUBLISHED if not landed else landed[0].snapshot_id
    return Aftermath(current=current, before=before, columns_before=COLUMNS, landings=landed)


@given(landings(), slice_sets.filter(bool))
def test_main_moves_back_only_where_nothing_landed_and_nothing_is_lost_where_something_did(
    landed: tuple[Landing, ...], slices: SliceSet
) -> None:
    found = way_back(table(), slices, after(*landed), COLUMNS, unmoved=False)
    hits = [each for each in standing(landed) if each.changed.within(slices)]
    match found:
        case Blocked():
            assert hits
            assert all(str(each) in found.why for each in hits)
        case Undo():
            assert not hits
            assert found.way is (Way.COPIED if landed else Way.MOVED)
            assert found.later == landed
            assert found.seen == (landed[0].snapshot_id if landed else PUBLISHED)


@given(landings())
def test_only_pairs_of_a_publish_and_its_undoing_cancel_out(landed: tuple[Landing, ...]) -> None:
    left = standing(landed)
    gone = [each for each in landed if each not in left]
    assert {each.run for each in gone if each.run} == {each.undoes for each in gone if each.undoes}
    assert not {each.run for each in left if each.run} & {each.undoes for each in left}
    assert all(each in left for each in landed if each.run is None and each.undoes is None)


def test_a_first_publish_is_emptied_and_one_whose_past_is_gone_is_refused() -> None:
    slices = SliceSet.of(Grain.DAY, [1])
    late = Landing(snapshot_id=101, operation="append", changed=Changed(slices=SliceSet.of(Grain.DAY, [2])))
    for landed in ((), (late,)):
        found = way_back(table(base=None), slices, after(*landed, before=None), COLUMNS, unmoved=False)
        assert isinstance(found, Undo)
        assert (found.way, found.before, found.later) == (Way.EMPTIED, None, landed)
    # It had rows before; a parent that nobody names any more must not be taken for none.
    lost = way_back(table(), slices, after(before=None), COLUMNS, unmoved=False)
    assert lost == Blocked(why="the version from before has expired", is_conflict=False)


def test_a_table_in_the_place_of_another_goes_back_only_unwritten() -> None:
    replaced = Replaced(beside="mart.a__x", uuid="v", schema_id=0, spec_id=0, snapshot_id=7)
    slices = SliceSet.of(Grain.DAY, [1])
    same = way_back(table(replaces=replaced), slices, after(), COLUMNS, unmoved=False)
    assert isinstance(same, Undo)
    assert same.way is Way.EXCHANGED
    late = Landing(snapshot_id=101, operation="append", changed=Changed(slices=SliceSet.of(Grain.DAY, [2])))
    written = way_back(table(replaces=replaced), slices, after(late), COLUMNS, unmoved=False)
    assert isinstance(written, Blocked)
    assert "snapshot 101 (append)" in written.why


def test_columns_are_copied_by_name_only_where_iceberg_means_the_same() -> None:
    def told(*now: tuple[str, str, int]) -> list[str]:
        return list(changed_columns(COLUMNS, [Column(name=name, type=kind, id=id) for name, kind, id in now]))

    assert told(("D", "date", 1), ("n", "bigint", 2), ("more", "string", 3)) == []
    assert told(("d", "date", 1)) == []
    assert told(("d", "date", 1), ("m", "int", 2)) == ["n is m now"]
    assert told(("d", "date", 1), ("n", "int", 3)) == ["n was dropped and added anew"]
    assert told(("d", "date", 1), ("n", "string", 2)) == ["n was int and is string"]


@given(st.integers(0, 100).map(lambda n: SliceSet.span(Grain.DAY, 0, n)))
def test_portions_are_the_slices_each_once(slices: SliceSet) -> None:
    assert [ordinal for portion in copies(slices) for ordinal in portion.ordinals] == list(slices.ordinals)
