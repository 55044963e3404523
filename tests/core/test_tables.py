"""The content of slices, from files that hold one slice, many, or don't say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from retcon.core.slices import SliceSet
from retcon.core.tables import Changed, TableContents, TableFile, content_of, digest_of
from tests.core.examples import DAY, NEAR_SETS, a_file, days, facts, of

# Narrow and wide files, below and above the width up to which a file is listed under each of its slices.
SPANS = st.one_of(
    st.just((None, None)),
    st.integers(0, 40).map(lambda o: (o, o)),
    st.tuples(st.integers(-10, 50), st.integers(0, 34)).map(lambda s: (s[0], s[0] + s[1])),
    st.tuples(st.integers(-5000, 50), st.integers(30, 9000)).map(lambda s: (s[0], s[0] + s[1])),
    # Rows without a time only: in no slice.
    st.just((1, 0)),
)


@st.composite
def contents(draw: st.DrawFn) -> TableContents:
    spans = draw(st.lists(SPANS, max_size=12))
    return TableContents(
        grain=DAY,
        files=tuple(
            TableFile(
                path=f"s3://b/{number}.parquet",
                rows=draw(st.integers(0, 1000)),
                bytes=draw(st.integers(0, 10_000)),
                first=first,
                last=last,
                is_delete=draw(st.booleans()),
            )
            for number, (first, last) in enumerate(spans)
        ),
    )


def may_hold(file: TableFile, slices: SliceSet) -> bool:
    """By brute force."""
    return any(file.first is None or file.last is None or file.first <= o <= file.last for o in slices.ordinals)


@given(contents(), NEAR_SETS)
def test_the_files_of_some_slices_are_those_that_may_hold_a_row_of_them(held: TableContents, slices: SliceSet) -> None:
    assert held.overlapping(slices) == [file for file in held.files if may_hold(file, slices)]


@given(contents(), NEAR_SETS)
def test_content_counts_each_file_once_and_the_rows_of_data_files_only(held: TableContents, slices: SliceSet) -> None:
    files = [file for file in held.files if may_hold(file, slices)]
    content = held.of(slices)
    assert content == content_of(files)
    assert content.files == sum(not file.is_delete for file in files)
    assert content.rows == sum(file.rows for file in files if not file.is_delete)
    assert content.bytes == sum(file.bytes for file in files)
    assert held.of(None) == content_of(held.files)


@given(contents(), st.lists(NEAR_SETS, max_size=4))
def test_a_digest_that_is_asked_for_again_is_what_it_was(held: TableContents, asked: list[SliceSet]) -> None:
    for slices in [*asked, *asked]:
        assert held.digest(slices) == held.of(slices).digest


@given(contents(), NEAR_SETS, st.data())
def test_the_digest_of_slices_tells_exactly_whether_their_files_are_the_same(
    held: TableContents, slices: SliceSet, data: st.DataObject
) -> None:
    more = data.draw(SPANS.map(lambda span: TableFile(path="new", rows=1, bytes=1, first=span[0], last=span[1])))
    shuffled = data.draw(st.permutations([*held.files, more]))
    grown = TableContents(grain=DAY, files=tuple(shuffled))
    assert (grown.of(slices).digest != held.of(slices).digest) == may_hold(more, slices)


@given(contents())
def test_present_are_the_slices_that_a_bounded_data_file_may_hold(held: TableContents) -> None:
    expected = {
        o
        for file in held.files
        if not file.is_delete and file.first is not None and file.last is not None
        for o in range(file.first, file.last + 1)
    }
    assert held.present == SliceSet.of(DAY, expected)


@given(contents())
def test_contents_are_exact_where_no_file_may_hold_rows_of_more_than_one_slice(held: TableContents) -> None:
    spans = [(file.first, file.last) for file in held.files]
    assert held.is_exact == all(first is not None and last is not None and last <= first for first, last in spans)


@given(contents(), NEAR_SETS)
def test_the_largest_slice_has_the_bytes_of_all_files_that_lie_near_it(held: TableContents, slices: SliceSet) -> None:
    def size(ordinal: int) -> int:
        near = (f for f in held.files if f.first is not None and f.last is not None and len(f.slices) <= 32)
        return sum(file.bytes for file in near if ordinal in file.slices)

    assert held.largest(slices) == max(map(size, slices.ordinals), default=0)
    everywhere = {ordinal for file in held.files for ordinal in file.slices}
    assert held.largest(None) == max(map(size, everywhere), default=0)


def test_a_file_bounded_on_one_side_only_may_hold_anything() -> None:
    half = TableFile(path="a", rows=1, bytes=1, first=5, last=None)
    assert TableContents(grain=DAY, files=(half,)).overlapping(of(99)) == [half]


def test_a_change_that_no_slice_can_be_named_for_is_a_change_of_all() -> None:
    asked = days("2026-01-01..2026-01-05")
    assert Changed(slices=days("2026-01-04..2026-01-09")).within(asked) == days("2026-01-04, 2026-01-05")
    assert Changed(slices=of(), everything=True).within(asked) == asked
    assert not Changed(slices=of()).within(asked)


def test_columns_are_found_as_spark_finds_them() -> None:
    table = facts("raw.t", [("Order_Date", "date"), ("amount", "decimal(12,2)")])
    column = table.column("ORDER_DATE")
    assert column is not None
    assert column.name == "Order_Date"
    assert table.column("order_dat") is None
    assert table.column_names == ("Order_Date", "amount")


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])), max_size=4))
def test_a_digest_tells_texts_and_their_order_apart(parts: list[str]) -> None:
    assert digest_of(parts) == digest_of(iter(parts))
    if parts != parts[::-1]:
        assert digest_of(parts) != digest_of(parts[::-1])
    assert digest_of([*parts, "x"]) != digest_of(parts)


def test_one_file_more_or_less_in_ten_thousand_is_noticed() -> None:
    files = [a_file(f"f{o}", o) for o in range(10_000)]
    whole = TableContents(grain=DAY, files=tuple(files))
    less = TableContents(grain=DAY, files=tuple(files[:5000] + files[5001:]))
    span = SliceSet.span(DAY, 0, 9_999)
    assert whole.of(span).digest != less.of(span).digest
    assert whole.of(of(4999)).digest == less.of(of(4999)).digest
