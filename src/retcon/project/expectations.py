"""`expect` in a plan's file: what the correction is expected to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field

from retcon.core.expectations import Expectation
from retcon.core.plans import Plan, Role
from retcon.core.suggestions import did_you_mean
from retcon.errors import Refused
from retcon.project.metrics import columns_in, read_condition, read_metric
from retcon.project.quantities import share_of
from retcon.project.shapes import Objection, Problems, Shape, Text, read_shape
from retcon.project.yaml_text import Place, YamlDocument


class _ChangeKeys(Shape):
    low: Annotated[Decimal, BeforeValidator(share_of)] | None = Field(default=None, alias="from")
    high: Annotated[Decimal, BeforeValidator(share_of)] | None = Field(default=None, alias="to")


class _ExpectKeys(Shape):
    model: Text | None = None
    metric: Text | None = None
    change: _ChangeKeys | None = None
    where: Text | None = None
    unchanged: Text | None = None


def read_expectations(plan: Plan, document: YamlDocument, path: str) -> tuple[Expectation, ...]:
    """What the plan's document says under `expect`: one mapping or a list of them, refused with all that is wrong."""
    value = document.value.get("expect") if isinstance(document.value, dict) else None
    if value is None:
        return ()
    problems = Problems(path, document)
    entries: Sequence[tuple[Place, object]] = (
        [(("expect", at), each) for at, each in enumerate(value)] if isinstance(value, list) else [(("expect",), value)]
    )
    found = [_expectation(plan, entry, problems, place) for place, entry in entries]
    if problems.found:
        raise problems.error()
    return tuple(each for each in found if each is not None)


def _expectation(plan: Plan, entry: object, problems: Problems, place: Place) -> Expectation | None:
    keys = read_shape(_ExpectKeys, entry, problems, place)
    if keys is None:
        return None
    _check_keys(keys, problems, place)
    metric, where, unchanged = keys.metric, keys.where, keys.unchanged
    model = problems.taken((*place, "model"), lambda: _model(plan, keys.model))
    taken_metric = problems.taken((*place, "metric"), lambda: read_metric(metric)) if metric else None
    taken_where = problems.taken((*place, "where"), lambda: read_condition(where)) if where else None
    same = problems.taken((*place, "unchanged"), lambda: read_condition(unchanged)) if unchanged else None
    return Expectation(
        model=model or "",
        metric=taken_metric,
        low=keys.change.low if keys.change else None,
        high=keys.change.high if keys.change else None,
        where=taken_where,
        unchanged=same,
    )


def _check_keys(keys: _ExpectKeys, problems: Problems, place: Place) -> None:
    bounds = (keys.change.low, keys.change.high) if keys.change is not None else (None, None)
    has_bounds = bounds != (None, None)
    if keys.metric is None and keys.unchanged is None:
        problems.object_to(place, Objection("needs a `metric` with its `change`, or `unchanged`"))
    if (keys.metric is not None) != has_bounds:
        remedy = "write, say, `metric: sum(amount), change: {from: -3%, to: 1%}`"
        problems.object_to(
            place, Objection("needs `metric`, and `change` with `from` or `to`, together", remedy=remedy)
        )
    if keys.where is not None and keys.metric is None:
        problems.object_to(place, Objection("has a `where`, but no `metric` that is taken there"))
    low, high = bounds
    if low is not None and high is not None and low > high:
        problems.object_to((*place, "change"), Objection("can't be met: `from` is above `to`"))


def _model(plan: Plan, name: str | None) -> str:
    """The planned model that is meant: by its name there, or as production calls it; else the only selected one."""
    selected = [planned.name for planned in plan.models if planned.role is Role.SELECTED]
    if name is None:
        if len(selected) != 1:
            raise Objection("is missing: the plan selects several models", remedy=f"name one: {', '.join(selected)}")
        return selected[0]
    names = [planned.name for planned in plan.models]
    # In an environment, models have a prefix.
    meant = [each for each in names if each == name or (plan.environment and each.endswith(name))]
    if len(meant) == 1:
        return meant[0]
    raise Objection(f"{name} isn't in the plan", remedy=did_you_mean(name, names) or f"it has: {', '.join(names)}")


def require_known_columns(plan: Plan, columns: Mapping[str, Sequence[str]]) -> None:
    """Refuse expectations about columns that their model doesn't have; a model without columns here isn't known yet."""
    for each in plan.expect:
        texts = {
            "metric": each.metric.expression if each.metric is not None else None,
            "where": each.where,
            "unchanged": each.unchanged,
        }
        known = columns.get(each.model)
        if known is None:
            continue
        have = {name.lower() for name in known}
        for key, text in texts.items():
            unknown = next((c for c in columns_in(text) if c.lower() not in have), None) if text else None
            if unknown is not None:
                raise Refused(
                    f"backfills/{plan.id}.yaml: `expect.{key}` is about {unknown}, a column that {each.model} "
                    "doesn't have",
                    state="nothing was run",
                    next=did_you_mean(unknown, known) or f"it has: {', '.join(known)}",
                )
