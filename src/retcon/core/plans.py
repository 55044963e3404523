"""Plans: the reviewed document of what a run will do. The plan printed is the plan run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from retcon.core.budgets import Budget, budget_from
from retcon.core.estimates import Estimate, estimate_from
from retcon.core.evolution import SchemaChange, change_document, change_from
from retcon.core.exceptions import LateChange, late_document, late_from
from retcon.core.expectations import Expectation, expectation_document, expectation_from
from retcon.core.intervals import Interval
from retcon.core.keys import Keys, keys_from
from retcon.core.models import Order
from retcon.core.slices import Cut, SliceSet, cut_of
from retcon.core.watermarks import Advance, advance_document, advance_from
from retcon.values import dataclass

Document = dict[str, Any]


class Role(StrEnum):
    """Why a model is in a plan."""

    SELECTED = "selected"
    DOWNSTREAM = "downstream"


class Origin(StrEnum):
    """Where an input's rows come from."""

    SOURCE = "source"
    MODEL = "model"
    RUN = "run"
    """A model that this same run stages."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked for, and the command that asks for it again."""

    models: tuple[str, ...]
    """As production calls them."""
    start: str | None
    end: str | None
    """Dates or hours, both included; None where nothing that is cut by time was asked for."""
    command: str
    exclude: tuple[str, ...] = ()
    """Readers that were left out by name."""
    downstream: bool = True
    allow_missing_source: bool = False
    wave: int | None = None
    refreshes: str | None = None
    """The plan that this one renews."""
    environment: str | None = None
    """Where it publishes; None: production."""
    force: bool = False
    """Though another run is under way over the same slices."""
    changed: bool = False
    """Only what differs from what would be computed now."""
    found: Mapping[str, str] = field(default_factory=dict)
    """By model as production calls it: the slices that a load found, or that were named one by one."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """Which snapshot of an input some slices read."""

    slices: SliceSet
    snapshot_id: int


@dataclass(frozen=True, kw_only=True)
class PlannedInput:
    """One input of one planned model: what will be read, and what is there."""

    name: str
    table: str
    origin: Origin
    slices: SliceSet | None
    """None: read whole."""
    snapshot_id: int | None
    files: int | None
    rows: int | None
    bytes: int | None
    """None: can't be told without reading it."""
    content: str
    """Empty where a change can't be seen."""
    missing: SliceSet | None = None
    """In slices as the input itself is cut, which may be coarser than those read."""
    null_rows: int = 0
    format: str | None = None
    """Of a source that isn't an Iceberg table."""
    versions: tuple[Version, ...] = ()
    """Where it is read as it was when each slice of the model ended."""

    @property
    def is_pinned(self) -> bool:
        """What is read is the same however often and whenever it is read; an Iceberg table without rows is, too."""
        return self.format is None or self.snapshot_id is not None

    def version_for(self, slices: SliceSet) -> int | None:
        """The snapshot that is read for these slices; None where all slices read the same one, pinned by the run."""
        return next((v.snapshot_id for v in self.versions if slices & v.slices), None)


@dataclass(frozen=True, kw_only=True)
class Beside:
    """The table that is built to take the place of a model's own, which can't become what the model says."""

    table: str
    """Its name; from the publish on, that of the version from before."""
    instead_of: int | None
    """The snapshot of the model's table that it replaces, None for one without; no later one."""


@dataclass(frozen=True, kw_only=True)
class PlannedModel:
    """One model of the plan with its slices, cut into waves."""

    name: str
    role: Role
    slices: SliceSet
    waves: tuple[SliceSet, ...]
    open: SliceSet
    """Slices that aren't over yet."""
    is_new: bool
    """Nothing of it was published so far."""
    fingerprint: str
    inputs: tuple[PlannedInput, ...]
    gates: tuple[str, ...]
    consumers: tuple[str, ...]
    order: Order = Order.PARALLEL
    one_by_one: tuple[str, ...] = ()
    """Why its slices are computed one by one."""
    changes: tuple[SchemaChange, ...] = ()
    """Of the table's columns, made before the first wave, or where it is built beside, with the publish."""
    beside: Beside | None = None
    is_keyed: bool = False
    """Only the rows of the plan's keys are recomputed, the others are carried over."""
    moved_from: SliceSet | None = None
    """Slices of which nothing is computed: rows leave them whose keys are computed in others."""

    @property
    def computed(self) -> SliceSet:
        return self.slices if self.moved_from is None else self.slices - self.moved_from

    def input(self, name: str) -> PlannedInput:
        return next(i for i in self.inputs if i.name == name)

    def without(self, labels: Iterable[str]) -> PlannedModel:
        """The same without these slices."""
        return replace(self, slices=self.slices - SliceSet.labelled(self.slices.grain, labels))

    @property
    def rows(self) -> int:
        return sum(i.rows or 0 for i in self.inputs)

    @property
    def bytes(self) -> int:
        return sum(i.bytes or 0 for i in self.inputs)


@dataclass(frozen=True, kw_only=True)
class Outside:
    """A model that this plan leaves alone though it reads what changes."""

    model: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Load:
    """What makes a plan that of a load: its scope was found, and its publish says how far inputs are consumed."""

    advances: tuple[Advance, ...]
    late: tuple[LateChange, ...] = ()
    """Changes too old to be restated unasked, recorded with the publish."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Why, what, from what, how much."""

    id: str
    reason: str
    created: datetime
    by: str
    request: Request
    interval: Interval | None
    """Around all slices asked for; None where none is cut by time."""
    timezone: str
    models: tuple[PlannedModel, ...]
    outside: tuple[Outside, ...]
    settings: str
    limits: Mapping[str, int]
    notes: tuple[str, ...] = ()
    params: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """As they were when the plan was made, in clear; part of what `settings` is the fingerprint of."""
    keys: Keys | None = None
    """The entities that it is about; None: all of them."""
    load: Load | None = None
    """None: a backfill, whose scope was asked for."""
    expect: tuple[Expectation, ...] = ()
    """What the correction is expected to do: like the reason, people write it."""
    estimate: Estimate | None = None
    """How long it will take; None where nobody asked, as of loads."""
    budget: Budget | None = None
    """What its run may take."""
    planned_in: float | None = None
    """Seconds that it took to plan."""

    @property
    def branch(self) -> str:
        return branch_of(self.id)

    @property
    def leaves_same_alone(self) -> bool:
        """Is what comes out as it was not published, and what reads only that not computed? So where the scope was
        found by what differs; what was asked for is replaced.
        """
        return self.load is not None or self.request.changed

    def asked_for(self, model: PlannedModel, prefix: str) -> SliceSet:
        """The slices of a model that are in the plan for their own sake, not because others are. `prefix`: of names in
        the plan's environment.
        """
        if self.load is None:
            return model.slices if model.role is Role.SELECTED else SliceSet(model.slices.grain)
        found = self.request.found.get(model.name.removeprefix(prefix))
        return SliceSet(model.slices.grain) if found is None else SliceSet.parse(model.slices.grain, found)

    @property
    def environment(self) -> str | None:
        return self.request.environment

    @property
    def slices(self) -> int:
        return sum(len(model.slices) for model in self.models)

    @property
    def waves(self) -> int:
        return sum(len(model.waves) for model in self.models)

    @property
    def bytes(self) -> int:
        return sum(model.bytes for model in self.models)

    @property
    def rows(self) -> int:
        return sum(model.rows for model in self.models)

    @property
    def consumers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for model in self.models for name in model.consumers))

    def model(self, name: str) -> PlannedModel | None:
        return next((model for model in self.models if model.name == name), None)

    def place(self, table: str) -> str:
        """Where the run writes and reads a table: its own place, or that of the one that is built beside."""
        planned = self.model(table)
        return table if planned is None or planned.beside is None else planned.beside.table


def branch_of(run: str) -> str:
    """The Iceberg branch of a run."""
    return f"retcon_{run}"


def beside_of(run: str, model: str) -> str:
    """The table that a run builds beside a model's: `mart.fct_daily_revenue__20260122_k3f9`."""
    return f"{model}__{run.partition('_')[0]}_{run.rpartition('_')[2]}"


def tag_before(run: str) -> str:
    """The tag that keeps the version from before a publish readable."""
    return f"retcon_before_{run}"


def undo_branch_of(run: str) -> str:
    """The branch on which the rollback of a run copies old slices: gone with the rollback."""
    return f"retcon_undo_{run}"


def canonical(value: object) -> str:
    """JSON that is the same for the same content."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(document: Mapping[str, Any]) -> str:
    """The hash of a plan's computed part: all but what people may edit."""
    computed = {key: value for key, value in document.items() if key not in ("reason", "expect", "digest")}
    return hashlib.sha256(canonical(computed).encode()).hexdigest()


def to_document(plan: Plan) -> Document:
    """The plan as plain data, with its digest."""
    document: Document = {
        "id": plan.id,
        "reason": plan.reason,
        **({"expect": [expectation_document(each) for each in plan.expect]} if plan.expect else {}),
        "created": _stamp(plan.created),
        "by": plan.by,
        "request": {
            "command": plan.request.command,
            "models": list(plan.request.models),
            "start": plan.request.start,
            "end": plan.request.end,
            **({"exclude": list(plan.request.exclude)} if plan.request.exclude else {}),
            "downstream": plan.request.downstream,
            "allow_missing_source": plan.request.allow_missing_source,
            "wave": plan.request.wave,
            "refreshes": plan.request.refreshes,
            "environment": plan.request.environment,
            **({"force": True} if plan.request.force else {}),
            **({"changed": True} if plan.request.changed else {}),
            **({"found": dict(plan.request.found)} if plan.request.found else {}),
        },
        "interval": {
            "start": None if plan.interval is None else _stamp(plan.interval.start),
            "end": None if plan.interval is None else _stamp(plan.interval.end),
            "slices_in": "UTC",
            "timezone": plan.timezone,
        },
        "estimate": {
            "slices": plan.slices,
            "waves": plan.waves,
            "input_rows": plan.rows,
            "input_bytes": plan.bytes,
            **({} if plan.estimate is None else plan.estimate.document()),
        },
        **({} if plan.budget is None else {"budget": plan.budget.document()}),
        **({} if plan.planned_in is None else {"planned_in": plan.planned_in}),
        "limits": dict(plan.limits),
        **({} if plan.keys is None else {"keys": plan.keys.document()}),
        **({} if plan.load is None else {"load": _load_document(plan.load)}),
        "settings": plan.settings,
        "params": dict(plan.params),
        "models": [_model_document(model) for model in plan.models],
        "outside": [{"model": o.model, "why": o.why} for o in plan.outside],
        "consumers": list(plan.consumers),
        "notes": list(plan.notes),
    }
    return {**document, "digest": digest(document)}


def code_of(fingerprint: str, settings: str) -> str:
    """What a slice was computed by: the model's code, and the settings that change results."""
    return f"{fingerprint} {settings}"


def codes_in(document: Document) -> dict[str, str]:
    """By model, the fingerprints of code and settings in a plan's document; the rest isn't read: there may be a plan
    for every day of years.
    """
    return {model["name"]: code_of(model["code"], document["settings"]) for model in document["models"]}


def _load_document(load: Load) -> Document:
    late = {"late": [late_document(each) for each in load.late]} if load.late else {}
    return {"advances": [advance_document(advance) for advance in load.advances], **late}


def _model_document(model: PlannedModel) -> Document:
    return {
        "name": model.name,
        "role": model.role.value,
        "grain": str(model.slices.grain),
        "slices": model.slices.text,
        "waves": [wave.text for wave in model.waves],
        "open": model.open.text,
        "new": model.is_new,
        "code": model.fingerprint,
        "order": model.order.value,
        "one_by_one": list(model.one_by_one),
        "columns": [change_document(change) for change in model.changes],
        **({} if model.beside is None else {"beside": asdict(model.beside)}),
        **({"keyed": True} if model.is_keyed else {}),
        **({} if model.moved_from is None else {"moved_from": model.moved_from.text}),
        "gates": list(model.gates),
        "consumers": list(model.consumers),
        "inputs": [_input_document(i) for i in model.inputs],
    }


def _input_document(planned: PlannedInput) -> Document:
    return {
        "name": planned.name,
        "table": planned.table,
        "origin": planned.origin.value,
        "format": planned.format,
        "pinned": planned.is_pinned,
        "grain": None if planned.slices is None else str(planned.slices.grain),
        "slices": None if planned.slices is None else planned.slices.text,
        "snapshot": planned.snapshot_id,
        "files": planned.files,
        "rows": planned.rows,
        "bytes": planned.bytes,
        "content": planned.content,
        "missing_grain": None if planned.missing is None else str(planned.missing.grain),
        "missing": "" if planned.missing is None else planned.missing.text,
        "null_rows": planned.null_rows,
        "as_of": [{"slices": v.slices.text, "snapshot": v.snapshot_id} for v in planned.versions],
    }


def from_document(document: Mapping[str, Any]) -> Plan:
    """The plan of a document whose digest was checked."""
    interval = document["interval"]
    return Plan(
        id=document["id"],
        reason=document["reason"],
        created=_moment(document["created"]),
        by=document["by"],
        request=request_from(document["request"]),
        interval=Interval(_moment(interval["start"]), _moment(interval["end"])) if interval["start"] else None,
        timezone=interval["timezone"],
        models=tuple(_model_from(model) for model in document["models"]),
        outside=tuple(Outside(model=o["model"], why=o["why"]) for o in document["outside"]),
        settings=document["settings"],
        limits=document["limits"],
        notes=tuple(document["notes"]),
        params=document.get("params", {}),  # older plans hold no more than the fingerprint
        keys=keys_from(document["keys"]) if "keys" in document else None,
        load=_load_from(document["load"]) if "load" in document else None,
        expect=tuple(expectation_from(each) for each in document.get("expect", ())),
        estimate=estimate_from(document["estimate"]) if "estimate" in document else None,
        budget=budget_from(document.get("budget")),
        planned_in=document.get("planned_in"),
    )


def _load_from(document: Mapping[str, Any]) -> Load:
    return Load(
        advances=tuple(advance_from(advance) for advance in document["advances"]),
        late=tuple(late_from(late) for late in document.get("late", ())),
    )


def request_from(document: Mapping[str, Any]) -> Request:
    """What a plan's document says was asked for."""
    return Request(
        command=document["command"],
        models=tuple(document["models"]),
        start=document["start"],
        end=document["end"],
        exclude=tuple(document.get("exclude", ())),
        downstream=document["downstream"],
        allow_missing_source=document["allow_missing_source"],
        wave=document.get("wave"),
        refreshes=document.get("refreshes"),
        environment=document.get("environment"),  # plans of before there were environments don't say
        force=document.get("force", False),
        changed=document.get("changed", False),
        found=document.get("found", {}),
    )


def _model_from(document: Mapping[str, Any]) -> PlannedModel:
    grain = cut_of(document["grain"])
    return PlannedModel(
        name=document["name"],
        role=Role(document["role"]),
        slices=SliceSet.parse(grain, document["slices"]),
        waves=tuple(SliceSet.parse(grain, wave) for wave in document["waves"]),
        open=SliceSet.parse(grain, document["open"]),
        is_new=document["new"],
        fingerprint=document["code"],
        order=Order(document.get("order", Order.PARALLEL)),
        one_by_one=tuple(document["one_by_one"]),
        # Plans of before columns could change have none.
        changes=tuple(change_from(change) for change in document.get("columns", ())),
        beside=Beside(**document["beside"]) if "beside" in document else None,
        is_keyed=document.get("keyed", False),
        moved_from=SliceSet.parse(grain, document["moved_from"]) if "moved_from" in document else None,
        gates=tuple(document["gates"]),
        consumers=tuple(document["consumers"]),
        inputs=tuple(_input_from(i, grain) for i in document["inputs"]),
    )


def _input_from(document: Mapping[str, Any], model: Cut) -> PlannedInput:
    slices = document["slices"]
    # Plans of before there were grains have none here: everything was cut as the model.
    grain, missing = (cut_of(document.get(key) or str(model)) for key in ("grain", "missing_grain"))
    return PlannedInput(
        name=document["name"],
        table=document["table"],
        origin=Origin(document["origin"]),
        slices=None if slices is None else SliceSet.parse(grain, slices),
        snapshot_id=document["snapshot"],
        files=document["files"],
        rows=document["rows"],
        bytes=document["bytes"],
        content=document["content"],
        missing=None if slices is None else SliceSet.parse(missing, document["missing"]),
        null_rows=document["null_rows"],
        format=document.get("format"),
        versions=tuple(
            Version(slices=SliceSet.parse(model, v["slices"]), snapshot_id=v["snapshot"])
            for v in document.get("as_of", ())
        ),
    )


def _stamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
