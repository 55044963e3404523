"""From conditions in SQL to bounds on the days between columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sqlglot import exp

from retcon.core.slices import Grain
from retcon.project.sql.spans import Bound, Condition, Field, Gap, SliceBound
from retcon.values import dataclass

SLICE_PARAMETERS = frozenset({"start_date", "end_date", "start_ts", "end_ts"})
_DAYS_OF_UNIT = {"DAY": 1, "DAYS": 1, "WEEK": 7, "WEEKS": 7}
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.EQ, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE,
}  # fmt: skip

_UNITS = {
    "YEAR": Grain.YEAR, "YYYY": Grain.YEAR, "YY": Grain.YEAR, "MONTH": Grain.MONTH, "MM": Grain.MONTH,
    "MON": Grain.MONTH, "WEEK": Grain.WEEK, "DAY": Grain.DAY, "DD": Grain.DAY, "HOUR": Grain.HOUR,
    "MINUTE": Grain.HOUR, "SECOND": Grain.HOUR,
}  # fmt: skip

Resolve = Callable[[exp.Column], Field | None]


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """How far times can be followed through a query."""

    grain: Grain = Grain.DAY
    in_utc: bool = True
    """Spark's days and months are those of UTC; else what it cuts a timestamp to isn't where slices are cut."""

    @property
    def counts_days(self) -> bool:
        """Where a slice is an hour, days apart don't tell slices apart, and a date isn't its moment."""
        return self.grain is not Grain.HOUR

    def truncated(self, node: exp.Expr) -> exp.Expr | None:
        """What is cut down here to the start of a slice, or of a part of one; None where that isn't so."""
        found = _truncation(node) if self.in_utc else None
        return found[0] if found is not None and found[1].divides(self.grain) else None

    def uncut(self, node: exp.Expr) -> exp.Expr:
        """What is left when all that only cuts down to parts of a slice is taken off."""
        inner = self.truncated(node)
        return node if inner is None else self.uncut(inner)

    def day_of(self, node: exp.Expr) -> exp.Expr | None:
        """What this is the day of."""
        found = _truncation(node) if self.in_utc and self.counts_days else None
        return found[0] if found is not None and found[1] in (Grain.DAY, Grain.HOUR) else None


KEYS = Calendar(grain=Grain.HOUR, in_utc=False)
"""For columns that tell no time: only the very same value is in the same slice."""


def _truncation(node: exp.Expr) -> tuple[exp.Expr, Grain] | None:
    match node:
        case exp.Cast() if node.to.this == exp.DType.DATE:
            return node.this, Grain.DAY
        case exp.TsOrDsToDate() if not node.args.get("format"):
            return node.this, Grain.DAY
        case exp.TimestampTrunc() | exp.DateTrunc():
            unit = node.args.get("unit")
            grain = _UNITS.get(unit.name.upper()) if unit is not None else None
            return None if grain is None else (node.this, grain)
    return None


@dataclass(frozen=True, kw_only=True)
class Stated:
    """A bound, and the parameters that the condition compares with."""

    condition: Condition
    parameters: tuple[exp.Placeholder, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Moment:
    """A column or a slice parameter, some days later."""

    base: Field | exp.Placeholder
    days: int

    def later_by(self, days: int | None) -> _Moment | None:
        return None if days is None else _Moment(base=self.base, days=self.days + days)


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """The conditions that all have to hold; what is OR-ed stays together."""
    stack = [] if condition is None else [condition]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.And):
            stack += [node.expression, node.this]
        elif isinstance(node, exp.Paren | exp.Where):
            stack.append(node.this)
        else:
            yield node


def stated_bounds(condition: exp.Expr | None, resolve: Resolve, calendar: Calendar) -> Iterator[Stated]:
    """What a condition says about the days between columns, and about the slices' edges."""
    for conjunct in conjuncts(condition):
        match conjunct:
            case exp.Between():
                yield from _compared(exp.GTE, conjunct.this, conjunct.args["low"], resolve, calendar)
                yield from _compared(exp.LTE, conjunct.this, conjunct.args["high"], resolve, calendar)
            case exp.NullSafeEQ():
                # rows without a day are in no slice, so here it is an equality
                yield from _compared(exp.EQ, conjunct.this, conjunct.expression, resolve, calendar)
            case exp.EQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
                yield from _compared(type(conjunct), conjunct.this, conjunct.expression, resolve, calendar)


def equated(pairs: Iterable[tuple[Field, Field]]) -> list[Stated]:
    """Columns that a USING or an IN sets equal."""
    return [Stated(condition=Bound(earlier=a, later=b, gap=Gap(low=0, high=0))) for a, b in pairs]


def _compared(
    kind: type[exp.Expr], left: exp.Expr, right: exp.Expr, resolve: Resolve, calendar: Calendar
) -> Iterator[Stated]:
    ours, theirs = _moment(left, resolve, calendar), _moment(right, resolve, calendar)
    if ours is None or theirs is None:
        return
    if isinstance(ours.base, exp.Placeholder):
        kind, ours, theirs = _MIRRORED[kind], theirs, ours
    if isinstance(ours.base, exp.Placeholder):
        return
    days = theirs.days - ours.days
    if isinstance(theirs.base, Field):
        if ours.base != theirs.base:
            yield Stated(condition=Bound(earlier=theirs.base, later=ours.base, gap=_gap(kind, days)))
        return
    yield Stated(
        condition=_slice_bound(kind, ours.base, theirs.base.name, days),
        parameters=(theirs.base,),
    )


def _gap(kind: type[exp.Expr], days: float) -> Gap:
    # `<` between timestamps of different days may leave them as many days apart as `<=` does
    if kind is exp.EQ:
        return Gap(low=days, high=days)
    return Gap(low=days) if kind in (exp.GT, exp.GTE) else Gap(high=days)


def _slice_bound(kind: type[exp.Expr], field: Field, parameter: str, days: int) -> SliceBound:
    """Which whole days the comparison keeps. A column compared with `:end_date` is taken for a date."""
    if parameter.endswith("_ts") and kind is exp.LTE:
        kind = exp.LT
    if parameter == "end_ts":  # midnight after the last day
        days += 1
    if kind is exp.GT:
        gap = Gap(low=days + 1)
    elif kind is exp.LT:
        gap = Gap(high=days - 1)
    else:
        gap = _gap(kind, days)
    return SliceBound(field=field, is_start=parameter.startswith("start"), gap=gap)


def _moment(node: exp.Expr, resolve: Resolve, calendar: Calendar) -> _Moment | None:
    day = calendar.day_of(node)
    if day is not None:
        return _moment(day, resolve, calendar)
    match node:
        case exp.Paren():
            return _moment(node.this, resolve, calendar)
        case exp.Column():
            field = resolve(node)
            return None if field is None else _Moment(base=field, days=0)
        case exp.Placeholder() if node.name in SLICE_PARAMETERS:
            is_edge = calendar.counts_days or node.name.endswith("_ts")
            return _Moment(base=node, days=0) if is_edge else None
        case _ if not calendar.counts_days:
            return None
        case exp.TsOrDsAdd() | exp.TimestampAdd() | exp.DateAdd():
            return _shifted(node.this, _days_in_unit(node.expression, node.args.get("unit")), resolve, calendar)
        case exp.Add():
            days = whole_days(node.expression)
            if days is not None:
                return _shifted(node.this, days, resolve, calendar)
            return _shifted(node.expression, whole_days(node.this), resolve, calendar)
        case exp.Sub():
            days = whole_days(node.expression)
            return None if days is None else _shifted(node.this, -days, resolve, calendar)
    return None


def _shifted(node: exp.Expr, days: int | None, resolve: Resolve, calendar: Calendar) -> _Moment | None:
    moment = _moment(node, resolve, calendar) if days is not None else None
    return None if moment is None else moment.later_by(days)


def whole_days(node: exp.Expr | None) -> int | None:
    """A number of days that the text states: `7`, `-1`, `INTERVAL 7 DAYS`."""
    match node:
        case exp.Interval():
            return _days_in_unit(node.this, node.args.get("unit"))
        case exp.Literal() if not node.is_string:
            return _integer(node.name)
        case exp.Neg():
            days = whole_days(node.this)
            return None if days is None else -days
        case exp.Mul():  # date_sub(d, 1) comes as d + 1 * -1
            days, times = whole_days(node.this), whole_days(node.expression)
            return None if days is None or times is None else days * times
        case exp.Paren():
            return whole_days(node.this)
    return None


def _days_in_unit(number: exp.Expr | None, unit: exp.Expr | None) -> int | None:
    is_text = isinstance(number, exp.Literal) and number.is_string
    days = _integer(number.name) if is_text and number is not None else whole_days(number)
    length = _DAYS_OF_UNIT.get(unit.name.upper()) if unit is not None else None
    return None if days is None or length is None else days * length


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
