"""Rows to check by hand: how the input rows are found that they came from, and by what they are known later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retcon.core.hand_checks import Links, key_hash, links_of
from retcon.core.models import UNSLICED, Input, Model, Slicing
from retcon.core.queries import Batching, Query
from retcon.core.row_diffs import RowCounts, RowKind, RowPair
from retcon.core.slices import Buckets
from retcon.core.spreadsheets import csv_line, text_cell


def model(*key: str, **changes: Any) -> Model:
    made = Model(
        name="mart.x",
        path="models/mart/x.sql",
        query=Query(text="", references=()),
        batching=Batching(),
        slicing=Slicing(by="d"),
        inputs=(),
        fingerprint="",
        key=key,
    )
    return replace(made, **changes)


def source(**changes: Any) -> Input:
    return Input(name="raw.s", table="raw.s", **{"time": "day", **changes})


def test_rows_are_found_by_the_keys_columns_that_the_input_has_and_in_their_slice() -> None:
    assert links_of(model("id"), source(), ["ID", "day"]) == Links(columns={"id": "ID"}, by_slice=True)
    assert links_of(model("d", "id"), source(), ["d", "id"]) == Links(columns={"d": "d", "id": "id"}, by_slice=False)
    assert links_of(model("d"), source(), ["day", "x"]) == Links(columns={}, by_slice=True)
    assert links_of(model("id"), source(lookback=3), ["id", "day"]) == Links(columns={"id": "id"}, by_slice=False)
    assert links_of(model("id"), source(time=None), ["id"]).text == "id"


def test_an_input_that_declares_which_column_carries_the_entity_is_found_by_it() -> None:
    carried = source(key="customer")
    assert links_of(model("d", "customer_id"), carried, ["customer", "day"]).columns == {"customer_id": "customer"}
    bucketed = model("customer_id", "d", slicing=Slicing(by="customer_id", every=Buckets(4)))
    found = links_of(bucketed, carried, ["customer", "day"])
    assert (found.columns, found.text) == ({"customer_id": "customer"}, "customer = customer_id")


@pytest.mark.parametrize(
    ("made", "i", "columns", "why"),
    [
        (model(), source(), ["id"], "declares no `key`"),
        (model("d", "id"), source(), ["d", "day"], "no column id"),
        (model("id", "no"), source(), ["day"], "no column id or no"),
        (model("id", slicing=UNSLICED), source(time=None), ["x"], "no column id"),
        (model("id"), source(is_own=True), ["id"], "own earlier slices"),
    ],
)
def test_an_input_that_shares_nothing_with_the_key_cant_be_traced(
    made: Model, i: Input, columns: list[str], why: str
) -> None:
    found = links_of(made, i, columns)
    assert isinstance(found, str)
    assert why in found


def test_a_row_is_known_by_its_key_or_by_all_of_it_and_never_by_its_values() -> None:
    row = RowPair(
        slice="2026-01-01", kind=RowKind.ADDED, times=1, key={"id": "7"}, old=None, new={"x": "1"}, differs=()
    )
    assert key_hash(row) == key_hash(replace(row, new={"x": "2"}))
    loose = replace(row, key={})
    hashes = {key_hash(each) for each in (row, replace(row, key={"id": "8"}), loose, replace(loose, new={"x": "2"}))}
    assert len(hashes) == 4
    assert all(len(each) == 16 for each in hashes)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx"])
def test_no_spreadsheet_computes_a_text(text: str) -> None:
    assert text_cell(text) == f'"\'{text}"'


def test_null_is_empty_and_an_empty_text_isnt() -> None:
    assert csv_line([text_cell(None), text_cell(""), text_cell('say "a, b"\n')]) == ',"","say ""a, b""\n"\r\n'


def test_counts_add_up() -> None:
    assert (RowCounts(changed=1, added=2) + RowCounts(added=1, removed=4)).differing == 8
