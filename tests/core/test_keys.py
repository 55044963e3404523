"""Key scopes: whose rows can be recomputed by themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retcon.core.keys import Keys, is_value_of, parse_keys
from retcon.core.models import Model, OnChange, Strategy
from retcon.core.notes import keys_notes
from retcon.core.planning import Scope, narrowed_to
from retcon.core.queries import Entity
from retcon.errors import BadArguments
from tests.core.examples import a_graph, a_model, an_input, days, facts

KEPT = Entity(columns=frozenset({"id"}))
OWN = replace(an_input("m.b", key="id"), lookback=1, is_own=True)


def carrying(name: str, *tables: str, entity: Entity = KEPT, key: str | None = "id") -> Model:
    inputs = [an_input(table, key=key, on_change=OnChange.RESTATE) for table in tables]
    return replace(a_model(name, *inputs), entity=entity)


def scope_of(*names: str) -> Scope:
    return Scope(slices=dict.fromkeys(names, days("2026-01-01..2026-01-03")), selected=frozenset(names[:1]))


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (carrying("m.b", "raw.s", key=None), "none of its inputs says which column carries the entity"),
        (carrying("m.b", "raw.s", entity=Entity(reasons=("the window counts all",))), "the window counts all"),
        (carrying("m.b", "raw.s", entity=Entity(columns=frozenset({"other"}))), "its output doesn't carry id"),
        (replace(carrying("m.b", "raw.s"), strategy=Strategy.FULL), "its strategy is full"),
        (replace(carrying("m.b", "raw.s"), strategy=Strategy.MERGE), "its strategy is merge"),
        (replace(carrying("m.b", "raw.s"), inputs=(OWN,)), "it reads its previous slice"),
    ],
)
def test_a_model_that_does_not_keep_entities_apart_is_recomputed_in_whole_slices(model: Model, why: str) -> None:
    scope = narrowed_to("ID", scope_of("m.b"), a_graph(model), {})
    assert not scope.keyed
    assert scope.widened["m.b"].startswith(why.replace("carry id", "carry ID"))


def test_what_reads_whole_slices_is_recomputed_in_whole_slices_too() -> None:
    graph = a_graph(
        carrying("m.a", "raw.s"),
        carrying("m.b", "m.a"),
        carrying("m.c", "m.a", key=None),
        carrying("m.d", "m.b", "m.c"),
        replace(carrying("m.e", "m.b"), inputs=(an_input("m.b"), an_input("raw.s", key="id"))),
    )
    scope = narrowed_to("id", scope_of("m.a", "m.b", "m.c", "m.d", "m.e"), graph, {})
    assert scope.keyed == {"m.a", "m.b"}
    assert scope.widened["m.d"] == "whole slices of m.c are recomputed, which it reads"
    assert scope.widened["m.e"] == "it reads m.b without `key: id`"
    notes = keys_notes(Keys(column="id", count=2, values=("1", "2")), scope, {"m.a": days("2026-01-04")})
    assert notes[0] == "m.a: rows of 2 keys of id are recomputed in 2026-01-01..2026-01-03; all others are carried over"
    assert notes[-1].startswith("m.a: 2026-01-04 (1 slice) left out: never published")


def test_what_knows_the_rows_of_a_keyed_model_by_another_column_is_recomputed_in_whole_slices() -> None:
    graph = a_graph(carrying("m.a", "raw.s"), carrying("m.b", "m.a", key="buyer"), carrying("m.c", "m.a", key="ID"))
    scope = narrowed_to("id", scope_of("m.a", "m.b", "m.c"), graph, {})
    assert scope.keyed == {"m.a", "m.c"}
    assert scope.widened["m.b"] == "it reads m.a without `key: id`"


def test_keys_are_listed_by_their_column() -> None:
    assert parse_keys(" customer_id = 3, 1,3 ,") == ("customer_id", ("3", "1"))
    for text in ("1,2", "customer_id=", "=1", "customer_id=, ,"):
        with pytest.raises(BadArguments, match="names no keys"):
            parse_keys(text)


@pytest.mark.parametrize(
    ("text", "kind", "fits"),
    [
        ("17", "bigint", True),
        ("-1", "int", True),
        ("c17", "bigint", False),
        ("1.5", "int", False),
        ("c17", "string", True),
    ],
)
def test_a_text_that_is_no_number_is_no_key_of_a_column_of_numbers(text: str, kind: str, fits: bool) -> None:
    assert is_value_of(text, kind) is fits


@pytest.mark.parametrize(
    ("own", "of_input", "is_told"),
    [
        ("string", "string", True),
        ("bigint", "int", True),
        ("bigint", "string", True),
        ("int", "decimal(10,0)", True),
        ("string", "bigint", False),
        ("bigint", "decimal(10,2)", False),
        ("date", "timestamp", False),
    ],
)
def test_keys_whose_texts_may_differ_where_a_join_finds_them_equal_widen_the_scope(
    own: str, of_input: str, is_told: bool
) -> None:
    graph = a_graph(carrying("m.a", "raw.s"))
    tables = {"m.a": facts("m.a", (("id", own),)), "raw.s": facts("raw.s", (("id", of_input),))}
    scope = narrowed_to("id", scope_of("m.a"), graph, tables)
    assert (scope.keyed == {"m.a"}) is is_told
    assert is_told or scope.widened["m.a"] == f"its id is {own}, and raw.s has it as {of_input}"
