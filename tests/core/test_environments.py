"""A project in an environment: other names, the same code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.environments import bound, clashes
from retcon.core.projects import Catalog, Project, Settings
from retcon.errors import Refused
from tests.core.examples import a_graph, a_model, an_input

NAMESPACES = st.sampled_from(["mart", "b_mart", "a_mart", "a_b_mart"])
PREFIXES = st.sampled_from(["a_", "a_b_", "b_", "A_"])


def a_project(**environments: str) -> Project:
    graph = a_graph(
        a_model("mart.orders", "raw.orders", tags=("finance",)),
        a_model("mart.fct", an_input("mart.orders", name="o"), "raw.rates", consumers=("board",)),
        a_model("mart.last", "mart.fct", after=("mart.orders",)),
    )
    catalog = Catalog(name="lake", uri="", warehouse="")
    settings = Settings(name="shop", root="/shop", catalog=catalog, environments=environments)
    return Project(settings=settings, graph=graph)


def test_models_have_other_names_and_sources_are_read_where_they_are() -> None:
    project = a_project(staging="staging_")
    staging = bound(project, "staging")
    assert staging.graph.order == ("staging_mart.orders", "staging_mart.fct", "staging_mart.last")
    fct = staging.graph.models["staging_mart.fct"]
    assert [(i.name, i.table, i.name_in_text) for i in fct.inputs] == [
        ("o", "staging_mart.orders", "mart.orders"),
        ("raw.rates", "raw.rates", "raw.rates"),
    ]
    assert staging.graph.models["staging_mart.last"].after == ("staging_mart.orders",)
    assert staging.graph.parents("staging_mart.last") == {"staging_mart.fct", "staging_mart.orders"}


def test_the_code_is_the_same_and_no_consumer_is_told() -> None:
    project = a_project(staging="staging_")
    fct = bound(project, "staging").graph.models["staging_mart.fct"]
    production = project.graph.models["mart.fct"]
    assert (fct.fingerprint, fct.path, fct.query) == (production.fingerprint, production.path, production.query)
    assert production.consumers == ("board",)
    assert fct.consumers == ()


def test_production_is_the_project_as_it_is() -> None:
    project = a_project(staging="staging_")
    assert bound(project, None) is project


def test_an_environment_that_isnt_declared_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refused, match="no environment stagin") as refused:
        bound(a_project(staging="staging_"), "stagin")
    assert refused.value.next == "did you mean staging?"


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("mart.fct", ["fct"]),
        ("staging_mart.fct", ["fct"]),
        ("mart.*", ["orders", "fct", "last"]),
        ("staging_*", ["orders", "fct", "last"]),
        ("+mart.fct", ["orders", "fct"]),
        ("mart.fct+", ["fct", "last"]),
        ("tag:finance", ["orders"]),
    ],
)
def test_selectors_take_names_with_and_without_the_prefix(selector: str, found: list[str]) -> None:
    graph = bound(a_project(staging="staging_"), "staging").graph
    assert graph.select((selector,)) == tuple(f"staging_mart.{name}" for name in found)
    assert graph.model("mart.fct") is graph.model("staging_mart.fct")


def test_an_environment_never_publishes_to_a_source_or_a_model() -> None:
    models, sources = ["mart.fct", "b_mart.fct", "b_x.y"], ["dev_mart.fct"]
    assert list(clashes({"dev": "dev_"}, models, sources)) == [
        ("dev", "would publish mart.fct to dev_mart.fct, which is the source dev_mart.fct")
    ]
    assert list(clashes({"b": "B_"}, models, sources)) == [
        ("b", "would publish mart.fct to B_mart.fct, which is the model b_mart.fct")
    ]


def test_two_environments_never_share_a_table() -> None:
    assert list(clashes({"one": "x_", "two": "X_"}, [], [])) == [
        ("two", "has the prefix of `one`: both would publish to the same tables")
    ]
    assert list(clashes({"one": "a_", "two": "a_b_"}, ["mart.fct", "b_mart.fct"], [])) == [
        ("two", "would publish mart.fct to a_b_mart.fct, which is b_mart.fct of `one`")
    ]


@given(
    models=st.sets(NAMESPACES.map(lambda n: f"{n}.t"), max_size=4),
    sources=st.sets(NAMESPACES.map(lambda n: f"{n}.t"), max_size=2),
    environments=st.dictionaries(st.sampled_from("xyz"), PREFIXES, max_size=3),
)
def test_without_a_clash_every_table_has_one_owner(
    models: set[str], sources: set[str], environments: dict[str, str]
) -> None:
    sources -= models
    tables = [*sources, *models, *(p + m for p in environments.values() for m in models)]
    is_unique = len({t.casefold() for t in tables}) == len(tables)
    same_prefix = len({p.casefold() for p in environments.values()}) < len(environments)
    assert bool(list(clashes(environments, models, sources))) == (not is_unique or same_prefix)
