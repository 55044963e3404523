"""What others' commits ask of a run: which slices are computed again, what is refused, what is passed by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from retcon.core.conflicts import Commit, Share, changed_by, taken_out, to_restage
from retcon.core.models import Input, Model, Slicing
from retcon.core.plans import Origin, PlannedInput, PlannedModel, Role
from retcon.core.queries import Query
from retcon.core.slices import WHOLE, Buckets, Grain, SliceSet
from retcon.core.tables import Changed
from tests.core.examples import DAY, NEAR, NEAR_SETS, REACHES, a_model, an_input, of

NOTHING = Changed(slices=of())
OPERATIONS = st.sampled_from(["append", "overwrite", "delete", "replace"])
DRAWN = st.lists(st.tuples(OPERATIONS, NEAR_SETS, NEAR_SETS))


def a_commit(operation: str = "append", *, added: Changed = NOTHING, removed: Changed = NOTHING, **more: Any) -> Commit:
    return Commit(snapshot_id=7, operation=operation, run=more.get("run"), added=added, removed=removed)


def planned(model: Model, slices: SliceSet, wave: int = 100) -> PlannedModel:
    cuts = range(0, len(slices), wave)
    return PlannedModel(
        name=model.name,
        role=Role.SELECTED,
        slices=slices,
        waves=tuple(SliceSet(slices.grain, slices.ordinals[at : at + wave]) for at in cuts),
        open=SliceSet(slices.grain),
        is_new=False,
        fingerprint="",
        inputs=tuple(
            PlannedInput(
                name=i.name,
                table=i.table,
                origin=Origin.SOURCE,
                slices=i.read_by(slices, slices.grain) if i.column(slices.grain) and slices else None,
                snapshot_id=1,
                files=0,
                rows=0,
                bytes=0,
                content="",
            )
            for i in model.inputs
        ),
        gates=(),
        consumers=(),
    )


def a_share(
    model: Model,
    slices: SliceSet,
    hit: SliceSet | None = None,
    changed: Mapping[str, Changed] | None = None,
    wave: int = 100,
) -> Share:
    return Share(
        model=model,
        planned=planned(model, slices, wave),
        hit=SliceSet(slices.grain) if hit is None else hit,
        changed=changed or {},
    )


# ── what a commit did ─────────────────────────────────────────────────────────────────────────────────────────────


def test_rewriting_files_changes_no_row_and_takes_none_out() -> None:
    everything = Changed(slices=of(1, 2), everything=True)
    rewrite = a_commit("replace", added=everything, removed=everything)
    assert not changed_by([rewrite], DAY)
    assert taken_out([rewrite], of(1)) is None


def test_rows_that_were_taken_out_of_the_scope_are_found_and_elsewhere_they_dont_matter() -> None:
    addition = a_commit(added=Changed(slices=of(1, 2, 3)))
    delete = a_commit("delete", removed=Changed(slices=of(2, 9)))
    assert taken_out([addition, delete], of(1, 2)) == (delete, of(2))
    assert taken_out([addition, delete], of(1, 3)) is None
    unbounded = a_commit("overwrite", removed=Changed(slices=of(), everything=True))
    assert taken_out([addition, unbounded], of(1, 3)) == (unbounded, of(1, 3))


def test_what_another_run_published_is_no_deletion() -> None:
    publish = a_commit("overwrite", added=Changed(slices=of(1)), removed=Changed(slices=of(1)), run="20260122_a_b1")
    assert taken_out([publish], of(1)) is None
    assert changed_by([publish], DAY).slices == of(1)
    assert publish.text == "snapshot 7 (overwrite by run 20260122_a_b1)"


@given(DRAWN, NEAR_SETS)
def test_nothing_is_passed_by_that_changed_a_row_in_the_scope(
    drawn: list[tuple[str, SliceSet, SliceSet]], scope: SliceSet
) -> None:
    commits = [a_commit(op, added=Changed(slices=a), removed=Changed(slices=r)) for op, a, r in drawn]
    hit = changed_by(commits, DAY).within(scope)
    for commit in commits:
        if not commit.is_rewrite:
            assert not commit.added.within(scope) - hit
            assert not commit.removed.within(scope) - hit
    found = taken_out(commits, scope)
    loses = [c for c in commits if not c.is_rewrite and c.removed.within(scope)]
    assert (found is not None) == bool(loses)


# ── what is computed again ────────────────────────────────────────────────────────────────────────────────────────


def test_only_what_others_wrote_and_its_readers_are_computed_again() -> None:
    a, b = a_model("mart.a", "raw.s"), a_model("mart.b", an_input("mart.a", lookback=1))
    shares = [a_share(a, of(1, 2, 3, 4), hit=of(2)), a_share(b, of(1, 2, 3, 4))]
    assert to_restage(shares) == {"mart.a": of(2), "mart.b": of(2, 3)}


def test_a_changed_input_takes_the_slices_along_that_read_it() -> None:
    a = a_model("mart.a", an_input("raw.s", lookback=2), an_input("raw.dim", time=None))
    slices = of(1, 2, 3, 4, 5, 6)
    changed = {"raw.s": Changed(slices=of(3))}
    assert to_restage([a_share(a, slices, hit=of(1), changed=changed)]) == {"mart.a": of(1, 3, 4, 5)}
    whole = {"raw.dim": Changed(slices=SliceSet.every(WHOLE))}
    assert to_restage([a_share(a, slices, changed=whole)]) == {"mart.a": slices}
    assert to_restage([a_share(a, slices, changed={"raw.s": NOTHING, "raw.dim": NOTHING})]) == {}


def test_of_a_model_that_reads_itself_every_later_slice_is_computed_again() -> None:
    own = Input(name="mart.a", table="mart.a", time="d", lookback=1, is_own=True)
    a = a_model("mart.a", "raw.s", own)
    assert to_restage([a_share(a, of(3, 4, 5, 6), hit=of(5))]) == {"mart.a": of(5, 6)}
    # What lies before the run's first slice is only read.
    before = {"mart.a": Changed(slices=of(2))}
    assert to_restage([a_share(a, of(3, 4, 5, 6), changed=before)]) == {"mart.a": of(3, 4, 5, 6)}


def test_a_wave_that_is_told_its_bounds_is_computed_again_without_gaps() -> None:
    a = a_model("mart.a", "raw.s", query=Query(text="", references=(), parameters=frozenset({"start_date"})))
    share = a_share(a, of(1, 2, 3, 4, 5, 6, 7, 8), hit=of(1, 3, 8), wave=4)
    assert to_restage([share]) == {"mart.a": of(1, 2, 3, 8)}


def test_where_another_column_is_read_any_slice_may_be_concerned() -> None:
    a = a_model("mart.a", "raw.s")
    b = a_model("mart.b", an_input("mart.a", time="shipped"))
    shares = [a_share(a, of(1, 2), hit=of(1)), a_share(b, of(1, 2, 3))]
    assert to_restage(shares)["mart.b"] == of(1, 2, 3)


def test_months_are_computed_again_for_a_day_and_buckets_for_their_bucket() -> None:
    a = a_model("mart.a", "raw.s")
    month = replace(a_model("mart.m", "mart.a"), slicing=Slicing(by="d", every=Grain.MONTH))
    share = a_share(month, SliceSet(Grain.MONTH, (0, 1)))
    read = replace(share.planned.inputs[0], slices=SliceSet.span(DAY, 0, 58))
    share = replace(share, planned=replace(share.planned, inputs=(read,)))
    assert to_restage([a_share(a, of(0, 40), hit=of(40)), share])["mart.m"] == SliceSet(Grain.MONTH, (1,))

    cut = Buckets(4)
    keyed = Input(name="x", table="mart.k", key="id")
    k, of_k = a_model("mart.k", "raw.s", by="id"), a_model("mart.of_k", keyed, by="id")
    some = SliceSet.every(cut)
    shares = [a_share(k, some, hit=SliceSet(cut, (2,))), a_share(of_k, some)]
    assert to_restage(shares) == {"mart.k": SliceSet(cut, (2,)), "mart.of_k": SliceSet(cut, (2,))}


@given(
    scope=st.sets(NEAR, min_size=1, max_size=20),
    hits=NEAR_SETS,
    changes=NEAR_SETS,
    back=REACHES,
    ahead=REACHES,
    of_b=st.sets(NEAR, min_size=1, max_size=20),
)
def test_what_is_kept_reads_nothing_that_changed_and_what_isnt_has_a_reason(
    scope: set[int], hits: SliceSet, changes: SliceSet, back: int, ahead: int, of_b: set[int]
) -> None:
    a = a_model("mart.a", an_input("raw.s", lookback=back))
    b = a_model("mart.b", an_input("mart.a", lookback=back, lookahead=ahead))
    slices, read = of(*scope), of(*of_b)
    shares = [
        a_share(a, slices, hit=hits & slices, changed={"raw.s": Changed(slices=changes)}),
        # What others changed of mart.a outside the run's slices is read too.
        a_share(b, read, changed={"mart.a": Changed(slices=hits)}),
    ]
    found = to_restage(shares)
    anew_a, anew_b = found.get("mart.a", of()), found.get("mart.b", of())
    for slice in scope:
        reasons = {slice} & set(hits.ordinals) or set(range(slice - back, slice + 1)) & set(changes.ordinals)
        assert (slice in anew_a.ordinals) == bool(reasons)
    for slice in of_b:
        reads = set(range(slice - back, slice + ahead + 1))
        assert (slice in anew_b.ordinals) == bool(reads & (set(hits.ordinals) | set(anew_a.ordinals)))
