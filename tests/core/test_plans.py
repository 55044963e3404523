"""Plans as documents: what is written is what is read, and any edit beyond the reason shows."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from retcon.core.budgets import Budget
from retcon.core.estimates import Estimate
from retcon.core.intervals import Interval
from retcon.core.keys import Keys
from retcon.core.plans import (
    Beside,
    Document,
    Load,
    Origin,
    Outside,
    Plan,
    PlannedInput,
    PlannedModel,
    Request,
    Role,
    beside_of,
    branch_of,
    canonical,
    digest,
    from_document,
    tag_before,
    to_document,
)
from tests.core.examples import DAY, ORDINALS, days, of, slice_sets

# Without U+0085, which PyYAML itself doesn't bring back.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x85"), max_size=8) | st.sampled_from(
    [
        "«café» 'quoted' \"twice\" 東京 🙂",
        "yes",
        "null",
        "2026-01-22",
        "1e3",
        "0x1F",
        "a: b",
        "- x",
        "# no",
        "{{ x }}",
        "|",
        "~",
    ]
)
COUNTS = st.integers(0, 2**62)


@st.composite
def planned_inputs(draw: st.DrawFn) -> PlannedInput:
    slices = draw(st.none() | slice_sets())
    return PlannedInput(
        name=draw(TEXTS),
        table=draw(TEXTS),
        origin=draw(st.sampled_from(Origin)),
        slices=slices,
        snapshot_id=draw(st.none() | COUNTS),
        files=draw(COUNTS),
        rows=draw(COUNTS),
        bytes=draw(COUNTS),
        content=draw(TEXTS),
        missing=None if slices is None else draw(slice_sets()),
        null_rows=draw(COUNTS),
    )


@st.composite
def planned_models(draw: st.DrawFn) -> PlannedModel:
    slices = draw(slice_sets())
    cut = draw(st.integers(0, len(slices)))
    return PlannedModel(
        name=draw(TEXTS),
        role=draw(st.sampled_from(Role)),
        slices=slices,
        waves=(of(*slices.ordinals[:cut]), of(*slices.ordinals[cut:])),
        open=draw(slice_sets()),
        is_new=draw(st.booleans()),
        fingerprint=draw(TEXTS),
        inputs=tuple(draw(st.lists(planned_inputs(), max_size=2))),
        gates=tuple(draw(st.lists(TEXTS, max_size=2))),
        consumers=tuple(draw(st.lists(TEXTS, max_size=2))),
        one_by_one=tuple(draw(st.lists(TEXTS, max_size=1))),
        beside=draw(st.none() | st.builds(Beside, table=TEXTS, instead_of=st.none() | COUNTS)),
        moved_from=draw(st.none() | st.just(of(*slices.ordinals[cut:]))),
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    first = draw(ORDINALS)
    return Plan(
        id=draw(TEXTS),
        reason=draw(TEXTS),
        created=draw(st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC))),
        by=draw(TEXTS),
        request=Request(
            models=tuple(draw(st.lists(TEXTS, max_size=2))),
            start=draw(TEXTS),
            end=draw(TEXTS),
            command=draw(TEXTS),
            downstream=draw(st.booleans()),
            allow_missing_source=draw(st.booleans()),
            refreshes=draw(st.none() | st.just("20260122_x_k3f9")),
            force=draw(st.booleans()),
        ),
        interval=Interval(DAY.start(first), DAY.start(first) + timedelta(hours=draw(st.integers(1, 30)))),
        timezone=draw(TEXTS),
        models=tuple(draw(st.lists(planned_models(), max_size=2))),
        outside=tuple(draw(st.lists(st.builds(Outside, model=TEXTS, why=TEXTS), max_size=2))),
        settings=draw(TEXTS),
        limits=draw(st.dictionaries(TEXTS, COUNTS, max_size=2)),
        notes=tuple(draw(st.lists(TEXTS, max_size=2))),
    )


def a_plan() -> Plan:
    slices = days("2025-12-30..2026-01-02")
    read = PlannedInput(
        name="o", table="raw.orders", origin=Origin.SOURCE, slices=slices, snapshot_id=2**62, files=4, rows=400,
        bytes=4000, content="c0ffee", missing=days("2025-12-31"), null_rows=3,
    )  # fmt: skip
    whole = replace(read, name="c", table="raw.currencies", slices=None, missing=None, snapshot_id=None)
    model = PlannedModel(
        name="mart.m", role=Role.SELECTED, slices=slices, waves=(days("2025-12-30..2026-01-01"), days("2026-01-02")),
        open=days("2026-01-02"), is_new=True, fingerprint="f", inputs=(read, whole), gates=("rows",),
        consumers=("board", "cfo"), one_by_one=("LIMIT",),
    )  # fmt: skip
    below = replace(model, name="mart.n", role=Role.DOWNSTREAM, consumers=("board", "ops"), inputs=(read,))
    return Plan(
        id="20260102_m_k3f9",
        reason="rates of the day before: «café» 東京 🙂",
        created=datetime(2026, 1, 2, 12, 30, 15, 250, tzinfo=UTC),
        by="ada",
        request=Request(models=("mart.m",), start="2025-12-30", end="2026-01-02", command="retcon plan mart.m"),
        interval=Interval.of_edges(date(2025, 12, 30), date(2026, 1, 2)),
        timezone="Europe/Berlin",
        models=(model, below),
        outside=(Outside(model="mart.o", why="becomes stale"),),
        settings="s",
        limits={"slices": 5000, "bytes": 10**12},
        notes=("a note",),
    )


@settings(max_examples=25)
@given(plans())
def test_a_plan_comes_back_from_json_as_it_was(plan: Plan) -> None:
    document = json.loads(json.dumps(to_document(plan)))
    assert from_document(document) == plan
    assert document["digest"] == digest(document) == to_document(from_document(document))["digest"]


@settings(max_examples=25)
@given(plans())
def test_a_plan_comes_back_from_yaml_as_it_was(plan: Plan) -> None:
    document = to_document(plan)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    assert yaml.safe_load(text) == document
    assert from_document(yaml.safe_load(text)) == plan


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every plain value in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        return [path]
    return [leaf for key, held in inner for leaf in leaves(held, (*path, key))]


def changed(document: Document, path: tuple[Any, ...]) -> Document:
    """The document with another value at the end of the way."""
    copy = deepcopy(document)
    *way, last = path
    at: Any = copy
    for key in way:
        at = at[key]
    at[last] = f"{at[last]}, changed"
    return copy


WHOLE = to_document(a_plan())


def test_any_change_of_the_computed_part_changes_the_digest() -> None:
    paths = [path for path in leaves(WHOLE) if path[0] not in ("reason", "digest")]
    assert len(paths) > 80
    for path in paths:
        assert digest(changed(WHOLE, path)) != WHOLE["digest"], path


def test_leaving_out_or_adding_a_part_changes_the_digest() -> None:
    for key in WHOLE.keys() - {"reason", "digest"}:
        assert digest({k: v for k, v in WHOLE.items() if k != key}) != WHOLE["digest"], key
    assert digest({**WHOLE, "more": 1}) != WHOLE["digest"]


def test_what_people_may_edit_leaves_the_digest_alone() -> None:
    edited = {
        **WHOLE,
        "reason": "better words",
        "expect": [{"model": "mart.m", "unchanged": "a = 1"}],
        "digest": "whatever",
    }
    assert digest(edited) == WHOLE["digest"]
    assert digest(dict(reversed(WHOLE.items()))) == WHOLE["digest"]
    assert from_document(edited).reason == "better words"


def test_every_field_of_a_plan_is_in_its_document() -> None:
    """A field that were left out could be changed by hand without anybody noticing."""
    plan = a_plan()
    other_interval = Interval.of_edges(date(2025, 12, 29), date(2026, 1, 2))
    changes: dict[str, Any] = {
        "id": "x", "created": datetime(2026, 1, 3, tzinfo=UTC), "by": "bob", "interval": other_interval,
        "request": replace(plan.request, downstream=False), "timezone": "UTC", "models": plan.models[:1],
        "outside": (), "settings": "t", "limits": {}, "notes": (), "params": {"source": "ecb"},
        "keys": Keys(column="id", count=1, values=("17",)), "load": Load(advances=()),
        "estimate": Estimate(seconds=None), "budget": Budget(cost=5.0), "planned_in": 0.7,
    }  # fmt: skip
    assert {*changes, "reason", "expect"} == set(vars(plan))
    for name, value in changes.items():
        assert to_document(replace(plan, **{name: value}))["digest"] != WHOLE["digest"], name
    assert to_document(replace(plan, reason="x"))["digest"] == WHOLE["digest"]


def test_a_plan_about_keys_is_read_back_with_them_few_or_many() -> None:
    plan = replace(a_plan(), models=tuple(replace(model, is_keyed=True) for model in a_plan().models))
    for keys in (Keys(column="id", count=2, values=("17", "O'B, x")), Keys(column="id", count=10**6, digest="abc")):
        written = yaml.safe_load(yaml.safe_dump(to_document(replace(plan, keys=keys)), allow_unicode=True))
        assert from_document(written) == replace(plan, keys=keys)


def test_a_plan_adds_up_its_models() -> None:
    plan = a_plan()
    assert (plan.slices, plan.waves, plan.rows, plan.bytes) == (8, 4, 1200, 12_000)
    assert plan.consumers == ("board", "cfo", "ops")
    assert plan.model("mart.n") == plan.models[1]
    assert plan.model("mart.x") is None
    assert WHOLE["estimate"] == {"slices": 8, "waves": 4, "input_rows": 1200, "input_bytes": 12_000}


def test_a_run_has_its_branch_and_its_tag() -> None:
    assert a_plan().branch == branch_of("20260102_m_k3f9") == "retcon_20260102_m_k3f9"
    assert tag_before("20260102_m_k3f9") == "retcon_before_20260102_m_k3f9"


@given(
    st.recursive(TEXTS | COUNTS | st.booleans() | st.none(), lambda inner: st.dictionaries(TEXTS, inner, max_size=3))
)
def test_canonical_text_is_the_same_for_the_same_content(value: Any) -> None:
    turned = dict(reversed(value.items())) if isinstance(value, dict) else value
    assert canonical(value) == canonical(turned)
    assert json.loads(canonical(value)) == value


def test_a_table_that_is_built_beside_is_named_after_model_and_run_and_is_where_the_run_finds_it() -> None:
    plan = a_plan()
    name = beside_of(plan.id, "mart.m")
    assert name == "mart.m__20260102_k3f9"
    built = replace(plan.models[0], beside=Beside(table=name, instead_of=7))
    placed = replace(plan, models=(built, *plan.models[1:]))
    assert [placed.place(table) for table in ("mart.m", "mart.n", "raw.orders")] == [name, "mart.n", "raw.orders"]
