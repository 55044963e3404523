"""Who reads whom, in which order, and which models a selector means."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from retcon.core.graphs import Graph
from retcon.core.models import Model
from retcon.errors import BadArguments, ProjectInvalid, Refused
from tests.core.examples import a_graph, a_model, an_input

#   raw.s → base.a → base.b → mart.c → mart.e
#                  ↘ base.d ↗(after)
SHOP = a_graph(
    a_model("base.a", "raw.s", tags=("finance",)),
    a_model("base.b", "base.a"),
    a_model("base.d", "base.a", tags=("finance", "daily")),
    a_model("mart.c", "base.b", after=("base.d",)),
    a_model("mart.e", "mart.c", "raw.s"),
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to seven models whose inputs come earlier in a hidden order."""
    names = draw(st.permutations([f"m.{letter}" for letter in "abcdefg"]))[: draw(st.integers(1, 7))]
    reads, after = draw(st.integers(0, 2**21 - 1)), draw(st.integers(0, 2**21 - 1)) & draw(st.integers(0, 2**21 - 1))
    models: list[Model] = []
    for at, name in enumerate(names):
        # One bit for each pair of models.
        bits = {other: at * (at - 1) // 2 + place for place, other in enumerate(names[:at])}
        read = [other for other, bit in bits.items() if reads >> bit & 1]
        followed = tuple(other for other, bit in bits.items() if after >> bit & 1)
        models.append(a_model(name, "raw.s", *read, after=followed))
    return a_graph(*models)


def reachable(graph: Graph, name: str) -> set[str]:
    """Everything upstream, by brute force."""
    found: set[str] = set()
    for _ in graph.models:
        for other in {name} | set(found):
            model = graph.models[other]
            found |= {t for t in [*(i.table for i in model.inputs), *model.after] if t in graph.models}
    return found


@given(graphs())
def test_every_model_runs_once_and_after_all_it_reads_or_follows(graph: Graph) -> None:
    assert sorted(graph.order) == sorted(graph.models)
    for at, name in enumerate(graph.order):
        assert reachable(graph, name) <= set(graph.order[:at])


@given(graphs(), st.randoms())
def test_the_order_does_not_depend_on_the_order_of_the_files(graph: Graph, shuffle: object) -> None:
    models = list(graph.models.values())
    shuffle.shuffle(models)  # type: ignore[attr-defined]
    assert Graph.of(models).order == graph.order


@given(graphs())
def test_ancestors_and_descendants_are_each_other_seen_from_the_other_end(graph: Graph) -> None:
    for a in graph.models:
        assert graph.ancestors(a) == reachable(graph, a)
        for b in graph.models:
            assert (a in graph.ancestors(b)) == (b in graph.descendants(a))


@given(graphs())
def test_children_are_the_readers_of_a_table_with_the_input_they_read_it_by(graph: Graph) -> None:
    for table in (*graph.models, "raw.s"):
        found = {(model.name, i.name) for model, i in graph.children(table)}
        assert found == {(m.name, i.name) for m in graph.models.values() for i in m.inputs if i.table == table}


@pytest.mark.parametrize(
    ("selectors", "names"),
    [
        ((), "base.a base.b base.d mart.c mart.e"),
        (("mart.c",), "mart.c"),
        (("+mart.c",), "base.a base.b base.d mart.c"),
        (("mart.c+",), "mart.c mart.e"),
        (("+base.b+",), "base.a base.b mart.c mart.e"),
        (("tag:finance",), "base.a base.d"),
        (("tag:daily+",), "base.d mart.c mart.e"),
        (("+tag:daily",), "base.a base.d"),
        (("base.*",), "base.a base.b base.d"),
        (("*.[ce]",), "mart.c mart.e"),
        (("m*+", "base.b"), "base.b mart.c mart.e"),
    ],
)
def test_a_selector_means_the_models_it_says_in_running_order(selectors: tuple[str, ...], names: str) -> None:
    assert SHOP.select(selectors) == tuple(names.split())


@pytest.mark.parametrize(
    ("selectors", "exclude", "names"),
    [
        ((), ("mart.*",), "base.a base.b base.d"),
        (("+mart.c",), ("tag:finance",), "base.b mart.c"),
        (("base.a+",), ("base.d+",), "base.a base.b"),
        (("mart.c",), ("mart.c",), ""),
    ],
)
def test_exclude_takes_away_what_its_selectors_mean(
    selectors: tuple[str, ...], exclude: tuple[str, ...], names: str
) -> None:
    assert SHOP.select(selectors, exclude) == tuple(names.split())


@given(graphs(), st.data())
def test_plus_signs_add_what_is_up_and_down_the_graph(graph: Graph, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(graph.models)))
    up, down = graph.ancestors(name), graph.descendants(name)
    assert set(graph.select([f"+{name}"])) == up | {name}
    assert set(graph.select([f"{name}+"])) == down | {name}
    assert set(graph.select([f"+{name}+"])) == up | down | {name}


@pytest.mark.parametrize(
    ("selector", "hint"),
    [("mart.cc", "did you mean mart.c?"), ("+base.bb+", "did you mean base.b?"),
     ("tag:finanse", "did you mean tag:finance?"),
     ("zzzzzz", "`retcon check` lists the models"), ("nothing.*", "`retcon check` lists the models")],
)  # fmt: skip
def test_a_selector_that_means_nothing_is_refused_with_what_was_probably_meant(selector: str, hint: str) -> None:
    for select, exclude in (((selector,), ()), ((), (selector,))):
        with pytest.raises(Refused, match="no model matches") as refused:
            SHOP.select(select, exclude)
        assert hint in refused.value.next
        assert repr(selector) in refused.value.message


@pytest.mark.parametrize("selector", ["", "+", "++"])
def test_a_selector_without_a_name_is_no_selector(selector: str) -> None:
    with pytest.raises(BadArguments, match="selects nothing"):
        SHOP.select([selector])


def test_a_model_that_is_not_there_is_answered_with_the_nearest() -> None:
    assert SHOP.model("mart.c").name == "mart.c"
    with pytest.raises(Refused, match=r"there is no model mart\.d") as refused:
        SHOP.model("mart.d")
    assert "did you mean" in refused.value.next


@given(graphs(), st.data())
def test_a_cycle_is_named_in_reading_order(graph: Graph, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(graph.models)))
    assume(graph.descendants(name))
    below = data.draw(st.sampled_from(sorted(graph.descendants(name))))
    closed = a_model(name, *graph.models[name].inputs, an_input(below, name="loop"), after=graph.models[name].after)
    models = {**graph.models, name: closed}
    with pytest.raises(ProjectInvalid, match="in a circle") as refused:
        Graph.of(models.values())
    path = refused.value.problems[0].message.partition(": ")[2].split(" → ")
    assert len(path) > 1
    assert path[0] == path[-1]
    assert len(set(path[:-1])) == len(path) - 1
    for reader, read in pairwise(path):
        assert read in {i.table for i in models[reader].inputs} | set(models[reader].after)
    assert refused.value.problems[0].path == models[path[0]].path


def test_a_model_that_reads_itself_is_no_circle() -> None:
    graph = a_graph(a_model("m.a", "raw.s"), a_model("m.b", "m.a", an_input("m.b", lookback=1, is_own=True)))
    assert graph.order == ("m.a", "m.b")
    assert graph.descendants("m.b") == set()
    assert graph.children("m.b") == []


def test_an_empty_project_selects_nothing() -> None:
    assert a_graph().select(()) == ()
