"""Certificates: what manifests tell of a publish, and what they must not be taken for."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.certificates import Apart, CertifyRequest, Compared, TableCertificate, certificate_from, certificate_of
from retcon.core.slices import WHOLE, Buckets, Cut, Grain, SliceSet
from retcon.core.tables import TableFile

Files = tuple[TableFile, ...]


def a_file(path: str, first: int | None, last: int | None = None, *, is_delete: bool = False) -> TableFile:
    last = first if last is None else last
    return TableFile(path=path, rows=10, bytes=1, first=first, last=last, version="1", is_delete=is_delete)


def days(*ordinals: int) -> SliceSet:
    return SliceSet.of(Grain.DAY, ordinals)


def made(
    before: Files, published: Files, proven: Files, scope: SliceSet, same: SliceSet | None = None
) -> TableCertificate:
    request = CertifyRequest(published=3, proven=2, base=1, tag="t", by="d", grain=scope.grain)
    compared = Compared(
        before=1, base=Apart(before=before, after=published), proven=Apart(before=proven, after=published)
    )
    return certificate_of("mart.a", scope, same or SliceSet(scope.grain), request, compared)


OLD = tuple(a_file(f"old{day}", day) for day in range(5))
NEW = tuple(a_file(f"new{day}", day) for day in (1, 2))
KEPT = tuple(file for file in OLD if file.first not in (1, 2))


def test_an_honest_publish_holds_and_is_counted() -> None:
    # On the branch the new files have another sequence number than they get with the publish.
    proven = (*KEPT, *(replace(file, version="7") for file in NEW))
    found = made(OLD, (*KEPT, *NEW), proven, days(1, 2))
    assert found.holds
    assert (found.files_outside, found.rows_outside) == (3, 30)
    assert (found.files_replaced, found.files_inside, found.rows_inside) == (2, 2, 20)
    assert found.digest_before == found.digest_after
    assert (found.is_proven_inside, found.is_proven_whole) == (True, True)
    assert certificate_from(json.loads(json.dumps(asdict(found)))) == found


@pytest.mark.parametrize(
    ("published", "problem"),
    [
        ((*KEPT[1:], *NEW), "1 file outside the scope, and no longer there, e.g. old0@1"),
        ((*KEPT, a_file("x", 4), *NEW), "1 file outside the scope, and not there before, e.g. x@1"),
        ((*KEPT, *NEW[1:]), "1 file proven, and not published, e.g. new1"),
        ((*KEPT, *NEW, a_file("x", 1)), "1 file inside the scope, and not proven, e.g. x"),
        (
            (replace(KEPT[0], version="2"), *KEPT[1:], *NEW),
            "1 file outside the scope, and no longer there, e.g. old0@1",
        ),
        # Rows without a time are in no slice, and a file without bounds may hold rows of any.
        ((*KEPT, *NEW, a_file("x", 0, -1)), "1 file outside the scope, and not there before, e.g. x@1"),
        ((*KEPT, *NEW, a_file("x", None)), "1 file outside the scope, and not there before, e.g. x@1"),
        ((*KEPT, *NEW, a_file("x", 1, is_delete=True)), "1 file inside the scope, and not proven, e.g. x"),
    ],
)
def test_whatever_is_otherwise_is_named(published: Files, problem: str) -> None:
    found = made(OLD, published, (*KEPT, *NEW), days(1, 2))
    assert not found.holds
    assert problem in found.problems


def test_a_file_of_several_slices_is_kept_where_one_of_them_is_outside_and_must_have_been_proven_there() -> None:
    straddling = a_file("wide", 2, 3)
    before = (*OLD[:2], straddling)
    found = made(before, (OLD[0], NEW[0], straddling), (OLD[0], NEW[0], straddling), days(1, 2))
    assert found.holds
    assert (found.files_outside, found.files_inside) == (2, 2)
    assert not made(before, (OLD[0], NEW[0], straddling), (OLD[0], NEW[0]), days(1, 2)).is_proven_inside
    assert not made(before, (OLD[0], NEW[0]), (OLD[0], NEW[0]), days(1, 2)).holds
    # Both of its slices are in the scope: it is replaced.
    assert made(before, (OLD[0], NEW[0]), (OLD[0], NEW[0]), days(1, 2, 3)).holds


def test_slices_that_came_out_the_same_are_left_as_they_are_though_the_branch_has_files_of_its_own() -> None:
    proven = (*KEPT, *NEW)
    found = made(OLD, (*KEPT, OLD[2], NEW[0]), proven, days(1), days(2))
    assert found.holds
    assert (found.is_proven_inside, found.is_proven_whole) == (True, True)
    # What others wrote elsewhere isn't on the branch: the slices are as proven, the table isn't.
    others = a_file("others", 4)
    found = made((*OLD, others), (*KEPT, others, *NEW), proven, days(1, 2))
    assert found.holds
    assert (found.is_proven_inside, found.is_proven_whole) == (True, False)


def test_shared_manifests_are_counted_and_count_for_the_digest() -> None:
    request = CertifyRequest(published=3, proven=2, base=1, tag="t", by="d", grain=Grain.DAY)
    base = Apart(manifests=("m1", "m2"), files=7, rows=70, before=OLD, after=(*KEPT, *NEW), opened=3)
    proven = Apart(manifests=("m1",), before=NEW, after=NEW, opened=2)
    compared = Compared(before=1, base=base, proven=proven)
    found = certificate_of("mart.a", days(1, 2), days(), request, compared)
    assert (found.files_outside, found.rows_outside) == (10, 100)
    assert (found.manifests_shared, found.manifests_opened) == (2, 5)
    other = certificate_of(
        "mart.a", days(1, 2), days(), request, replace(compared, base=replace(base, manifests=("m1",)))
    )
    assert other.digest_before != found.digest_before


def test_what_cannot_be_told_does_not_hold_and_is_no_problem_either() -> None:
    request = CertifyRequest(published=3, proven=2, base=1, tag="t", by="d", grain=Grain.DAY)
    lost = Compared(before=1, base=None, proven=Apart(before=NEW, after=NEW), unknown=("snapshot 1 has expired",))
    found = certificate_of("mart.a", days(1, 2), days(), request, lost)
    assert (found.holds, found.problems, found.is_proven_inside) == (False, (), True)
    found = certificate_of("mart.a", days(1, 2), days(), request, replace(lost, proven=None))
    assert (found.is_proven_inside, found.is_proven_whole) == (False, False)


CUTS: tuple[Cut, ...] = (Grain.DAY, Grain.HOUR, Buckets(6), WHOLE)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Files, SliceSet, Files]:
    """Files of a table, a scope, and files that are proven for it."""
    cut = draw(st.sampled_from(CUTS))
    most = 0 if cut == WHOLE else 5
    spans = draw(st.lists(st.tuples(st.integers(0, most), st.integers(0, 2)), max_size=12))
    old = tuple(a_file(f"old{at}", first, min(first + more, most)) for at, (first, more) in enumerate(spans))
    scope = SliceSet.of(cut, draw(st.sets(st.integers(0, most), min_size=1)))
    homes = draw(st.lists(st.sampled_from(scope.ordinals), max_size=6))
    return old, scope, tuple(a_file(f"new{at}", home) for at, home in enumerate(homes))


def _is_replaced(file: TableFile, scope: SliceSet) -> bool:
    return set(file.slices) <= set(scope.ordinals)


@given(tables(), st.data())
def test_a_publish_holds_exactly_where_it_replaced_its_slices_by_what_was_proven(
    drawn: tuple[Files, SliceSet, Files], data: st.DataObject
) -> None:
    old, scope, new = drawn
    published = (*(file for file in old if not _is_replaced(file, scope)), *new)
    assert made(old, published, published, scope).holds
    tampered = data.draw(st.sampled_from(("drop", "add", "nothing")))
    if tampered == "drop" and published:
        other = tuple(file for file in published if file != data.draw(st.sampled_from(published)))
    elif tampered == "add":
        other = (*published, a_file("foreign", data.draw(st.integers(0, 0 if scope.grain == WHOLE else 5))))
    else:
        other = published
    assert made(old, other, published, scope).holds is (other == published)
