"""The keys of a model's front matter, as the design's table lists them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from retcon.core.models import UNSLICED, Input, OnChange, Order, Reach, Replay, Slicing, Strategy
from retcon.core.slices import Buckets, Cut, Grain, Whole
from retcon.core.validity import Gaps, Validity
from retcon.project import names
from retcon.project.cron_texts import cron_text
from retcon.project.quantities import days_of, reach_of
from retcon.project.shapes import Objection, Problems, Shape, TableName, Text, Texts, no_items, one_of, or_empty

CronText = Annotated[Text, AfterValidator(cron_text)]

_MOST_BUCKETS = 10_000
_HOURS = {Grain.HOUR: 1, Grain.DAY: 24, Grain.WEEK: 7 * 24}
"""Of the grains whose slices are all equally long."""


def _day(value: object) -> object:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise Objection("must be a date such as 2025-01-31") from None
    if not isinstance(value, date) or isinstance(value, datetime):
        raise Objection("must be a date such as 2025-01-31")
    return value


def _reason(value: object) -> object:
    """Why results may differ: nothing for `true`, the reason of `{value: false, reason: …}`."""
    if value is True:
        return ""
    if value is False:
        raise Objection("needs a reason", remedy="write `deterministic: {value: false, reason: …}`")
    if not isinstance(value, dict) or not set(value) <= {"value", "reason"} or not isinstance(value.get("value"), bool):
        raise Objection("must be true or `{value: false, reason: …}`")
    reason = value.get("reason")
    if value["value"]:
        return ""
    if not isinstance(reason, str) or not reason.strip():
        raise Objection("needs a reason", remedy="write `deterministic: {value: false, reason: …}`")
    return reason.strip()


class SlicesKeys(Shape):
    """How the history is cut."""

    by: Text
    every: Annotated[str, one_of(*Grain)] | None = None
    start: Annotated[date, BeforeValidator(_day)] | None = None
    buckets: Annotated[int, Field(ge=1, le=_MOST_BUCKETS)] | None = None

    def slicing(self) -> Slicing:
        if self.buckets is not None:
            return Slicing(by=self.by, every=Buckets(self.buckets))
        return Slicing(by=self.by, every=Grain(self.every or Grain.DAY), start=self.start)

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Keys that say something about time where nothing is cut by it, each with a remedy."""
        if self.buckets is not None:
            for key, value in (("every", self.every), ("start", self.start)):
                if value is not None:
                    yield key, f"leave `{key}` out, or `buckets`"


def _not_empty(columns: list[str]) -> list[str]:
    if not columns:
        raise Objection("can't be empty", remedy="name the columns that say whose window it is")
    return columns


class ValidKeys(Shape):
    """The windows in which the rows of a history hold."""

    start: Text = Field(alias="from")
    end: Text = Field(alias="to")
    key: Annotated[Texts, AfterValidator(_not_empty)]
    gaps: Annotated[str, one_of("warn", "fail", "allow")] = "warn"

    def validity(self) -> Validity:
        return Validity(start=self.start, end=self.end, key=tuple(self.key), gaps=Gaps(self.gaps))


class InputKeys(Shape):
    """How one table is read."""

    table: TableName | None = None
    time: Text | None = None
    lookback: Annotated[int | timedelta, BeforeValidator(reach_of)] = 0
    lookahead: Annotated[int | timedelta, BeforeValidator(reach_of)] = 0
    key: Text | None = None
    on_change: Annotated[str, one_of("restate", "ignore")] | None = None
    as_of: Annotated[str, one_of("slice")] | None = None
    valid: ValidKeys | None = None

    def input(self, name: str, every: Cut) -> Input:
        """The input under the name by which it is declared: the table's own, or an alias."""
        if self.table is None:
            names.table(name)
        elif "." in name:
            raise Objection("is declared with `table`, so its own name must be an alias without a dot")
        if self.time is None and (self.lookback or self.lookahead):
            raise Objection("reads slices around its own, but has no `time`", remedy="name its date column: `time: …`")
        if self.time is not None and self.valid is not None:
            raise Objection(
                "has validity windows, and a `time` would leave out those that began earlier",
                remedy="leave `time` out: a history is read whole",
            )
        cut, read = ("by time", "all times are") if isinstance(every, Buckets) else ("into slices", "all of it is")
        wanted = "`slices` by time" if isinstance(every, Buckets) else "`slices`"
        if self.time is not None and not isinstance(every, Grain):
            raise Objection(
                f"has a `time`, but the model isn't cut {cut}: {read} read",
                remedy=f"leave `time` out, or give the model {wanted}",
            )
        if self.as_of is not None and self.valid is not None:
            raise Objection(
                "has validity windows, and those tell by themselves what held when", remedy="leave out `as_of`"
            )
        if self.as_of is not None and not isinstance(every, Grain):
            raise Objection(
                f"is read as of each slice's end, but the model isn't cut {cut}",
                remedy=f"leave `as_of` out, or give the model {wanted}",
            )
        if self.as_of is not None and self.on_change == OnChange.RESTATE:
            raise Objection(
                "is read as it was at each slice's end, which no later change alters", remedy="leave out `on_change`"
            )
        is_scoped = self.key is not None if isinstance(every, Buckets) else self.time is not None
        is_followed = (is_scoped or isinstance(every, Whole)) and self.as_of is None
        default = OnChange.RESTATE if is_followed else OnChange.IGNORE
        return Input(
            name=name,
            table=self.table or name,
            time=self.time,
            lookback=_in_slices(self.lookback, every),
            lookahead=_in_slices(self.lookahead, every),
            key=self.key,
            on_change=OnChange(self.on_change) if self.on_change else default,
            valid=self.valid.validity() if self.valid is not None else None,
            at_slice_end=self.as_of is not None,
        )


def _in_slices(reach: Reach, every: Cut) -> Reach:
    """A time that is a whole number of slices, as that number: it is the same, and slices are what others count."""
    length = timedelta(hours=_HOURS[every]) if isinstance(every, Grain) and every in _HOURS else None
    if not isinstance(reach, timedelta) or length is None or reach % length:
        return reach
    return reach // length


class ColumnKeys(Shape):
    """One column of the output."""

    type: Text
    comment: Text | None = None


def _column(value: object) -> object:
    """`amount: int` is short for `amount: {type: int}`."""
    return {"type": value} if isinstance(value, str) else value


class ReplayKeys(Shape):
    """How history is recomputed."""

    order: Annotated[str, one_of(*Order)] = "parallel"
    wave: Annotated[int, Field(ge=1)] | None = None
    window: Annotated[int, BeforeValidator(days_of)] | None = None
    reprocess: Annotated[int, BeforeValidator(days_of)] = 0
    deep: CronText | None = None
    sliceable: bool = False

    def replay(self) -> Replay:
        return Replay(
            order=Order(self.order),
            wave=self.wave,
            window_days=self.window,
            reprocess_days=self.reprocess,
            deep=self.deep,
        )


class ModelKeys(Shape):
    """The front matter of a model. Gates are read entry by entry, so that one of them doesn't hide the query."""

    description: str = ""
    owner: str = ""
    tags: Texts = Field(default_factory=no_items)
    slices: SlicesKeys | None = None
    strategy: Annotated[str, one_of(*Strategy)] = "replace"
    key: Texts = Field(default_factory=no_items)
    columns: dict[Text, Annotated[ColumnKeys, BeforeValidator(_column)]] = Field(default_factory=dict)
    inputs: dict[Text, Annotated[InputKeys, BeforeValidator(or_empty)]] = Field(default_factory=dict)
    after: Texts = Field(default_factory=no_items)
    replay: ReplayKeys = ReplayKeys()
    gates: list[object] = Field(default_factory=no_items)
    consumers: Texts = Field(default_factory=no_items)
    allow_empty: bool = False
    retention: Annotated[int, BeforeValidator(days_of)] = 14
    schedule: CronText | None = None
    volatile: Texts = Field(default_factory=no_items)
    samples: bool = False
    deterministic: Annotated[str, BeforeValidator(_reason)] = ""

    def slicing(self) -> Slicing:
        """How the history is cut; a model that says nothing is one slice."""
        return UNSLICED if self.slices is None else self.slices.slicing()

    def check_strategy(self, problems: Problems) -> None:
        """Rows are merged by a key."""
        if self.strategy == Strategy.MERGE and not self.key:
            problems.add(
                ("strategy",), "`strategy: merge` needs the model's `key`", remedy="name the columns: `key: […]`"
            )

    def declared_inputs(self, problems: Problems, *, model: str) -> tuple[Input, ...]:
        """The inputs in the order of the file."""
        inputs: list[Input] = []
        every = self.slicing().every
        for key, remedy in self.slices.contradictions() if self.slices is not None else ():
            problems.add(
                ("slices", key), f"`slices.{key}` goes with slices of time, and `buckets` aren't", remedy=remedy
            )
        if isinstance(every, Buckets) and not any(keys.key for keys in self.inputs.values()):
            problems.add(
                ("slices", "buckets"),
                "`slices.buckets`: no input says in which column it carries the entity, so no bucket could be computed "
                "by itself",
                remedy="name it: `inputs: {some.table: {key: …}}`",
            )
        for name, keys in self.inputs.items():
            found = problems.taken(("inputs", name), partial(keys.input, name, every))
            if found is not None and found.table == model:
                found = problems.taken(("inputs", name), partial(self._own, found))
            if found is not None:
                inputs.append(found)
        return tuple(inputs)

    def _own(self, i: Input) -> Input:
        """The input by which a model reads its own table."""
        if not isinstance(self.slicing().every, Grain):
            cut = "into slices" if self.slices is None else "by time"
            raise Objection(
                f"is the model itself, which has no previous slice: it isn't cut {cut}",
                remedy="give the model `slices`" + ("" if self.slices is None else " by time"),
            )
        if self.strategy == Strategy.MERGE:
            raise Objection(
                "is the model itself, and with `strategy: merge` rows of earlier runs would stay in what it reads",
                remedy="leave out `strategy`: whole slices are replaced",
            )
        if i.time is None or not i.lookback:
            raise Objection(
                "is the model itself, and what is being computed can't be read",
                remedy=f"read its previous slice: `time: {self.slicing().by}, lookback: 1`",
            )
        if i.at_slice_end:
            raise Objection("is the model itself, which is read as it is being built", remedy="leave out `as_of`")
        if i.lookahead:
            raise Objection(
                "is the model itself, and what comes after a slice isn't computed yet", remedy="leave out `lookahead`"
            )
        if i.on_change is OnChange.IGNORE:
            raise Objection(
                "is the model itself: restating a slice restates the later ones", remedy="leave out `on_change`"
            )
        if self.replay.order != Order.SEQUENTIAL:
            raise Objection(
                "is the model itself, so its slices are computed one after the other",
                remedy="write `replay: {order: sequential}`",
            )
        if not self.columns:
            raise Objection(
                "is the model itself, whose table isn't there when its first slice is computed",
                remedy="name its columns and their types: `columns: {…}`",
            )
        return replace(i, is_own=True)
