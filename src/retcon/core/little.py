"""Little work: a plan that reads so little that a process prepared for much would cost more than what it does."""

from __future__ import annotations

from collections.abc import Mapping

from retcon.core.gates import looks_beyond, tables_of
from retcon.core.models import Model, Strategy
from retcon.core.plans import Origin, Plan

_LITTLE = 8 * 1024**2


def is_little(plan: Plan, models: Mapping[str, Model]) -> bool:
    """Is all that will be read known, and little? What nobody counted, as rows that are carried over or looked at by
    gates, may be much.
    """
    read = [i.bytes for planned in plan.models for i in planned.inputs if i.origin is not Origin.RUN]
    is_counted = plan.keys is None and all(_reads_inputs_only(models.get(each.name)) for each in plan.models)
    return is_counted and None not in read and sum(filter(None, read)) <= _LITTLE


def _reads_inputs_only(model: Model | None) -> bool:
    if model is None or model.strategy is Strategy.MERGE:
        return False
    return not any(looks_beyond(gate, model.slicing.by, model.name) or tables_of(gate) for gate in model.gates)
