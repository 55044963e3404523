"""The gate `profile`, from its entry."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field

from retcon.core.gates import Profile
from retcon.core.profiles import ProfileBounds
from retcon.core.row_histories import LEAST, RowHistory
from retcon.project.gate_shapes import Entry, GateKeys
from retcon.project.quantities import unsigned_share_of
from retcon.project.shapes import Objection, Shape, Texts, read_shape


def _index(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 100:
        raise Objection("must be a number above 0, such as 0.25")
    return Decimal(str(value))


def _outliers(value: object) -> object:
    """`outliers: 8` is short for `outliers: {history: 8}`."""
    return {"history": value} if isinstance(value, int) and not isinstance(value, bool) else value


class _OutlierKeys(Shape):
    history: Annotated[int, Field(ge=LEAST)] = RowHistory.slices
    deviations: Annotated[float, Field(gt=0, allow_inf_nan=False)] = RowHistory.deviations


class _ProfileKeys(GateKeys):
    columns: Texts
    psi: Annotated[Decimal, BeforeValidator(_index)] | None = None
    null_rate: Annotated[Decimal, BeforeValidator(unsigned_share_of)] | None = None
    outliers: Annotated[_OutlierKeys, BeforeValidator(_outliers)] | None = None


def read_profile(entry: Entry) -> Profile | None:
    """From `all`, `[a, b]`, or `{columns: all or [a, b], psi: …}`."""
    body = entry.body if isinstance(entry.body, dict) else {"columns": entry.body}
    if body.get("columns", "all") == "all":
        body = {**body, "columns": []}
    elif body["columns"] == []:
        entry.object_to("must name at least one column", remedy="or write `columns: all`")
        return None
    keys = read_shape(_ProfileKeys, body, entry.problems, entry.place)
    if keys is None:
        return None
    if keys.outliers is not None and not entry.is_by_time:
        entry.object_to("has `outliers`, but the model isn't cut by time", remedy="leave them out")
    far = keys.outliers
    bounds = ProfileBounds(
        psi=keys.psi,
        null_rate=keys.null_rate,
        outliers=RowHistory(slices=far.history, deviations=far.deviations) if far is not None else None,
    )
    return Profile(name=keys.name or entry.name, columns=tuple(keys.columns), bounds=bounds, warns=keys.warn)
