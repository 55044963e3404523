"""What is published of each model, how fresh it is, and what is under way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import NONE, Zone, count, counted, duration, slices
from retcon.cli.views.parts import QUIET, WARN, Cell, bullets, name, number, prose, section, stack, table
from retcon.cli.views.runs_listed import under_way
from retcon.core.freshness import Freshness
from retcon.core.slices import Grain
from retcon.flow.statuses import ModelStatus

_NOT_KNOWN = "not known"


def status_view(report: Sequence[ModelStatus], freshness: Mapping[str, Freshness], zone: Zone) -> RenderableType:
    """Per model what readers see and how far it is complete; below, what isn't, and what is under way."""
    if not report:
        return Text("no models", style=QUIET)
    heads = (name("model"), prose("published"), number("rows"), name("complete up to"), number("lag"))
    flying = {progress.run.id: progress for status in report for progress in status.in_flight}
    return stack(
        [
            table(heads, (_row(each, freshness[each.model]) for each in report)),
            _last(report, zone),
            _stale([freshness[each.model] for each in report]),
            _unknown([freshness[each.model] for each in report]),
            under_way(list(flying.values())),
        ]
    )


def _row(status: ModelStatus, fresh: Freshness) -> tuple[Cell, ...]:
    parts = [f"{counted(len(status.slices), 'slice')}: {slices(status.slices)}"] if status.slices else []
    if status.unknown:
        parts.append(f"unknown: {slices(status.unknown)}")
    if not parts:
        return status.model, Text("never published", style=QUIET), NONE, NONE, NONE
    return (
        status.model,
        "; ".join(parts),
        count(status.rows) if status.published is not None else NONE,
        _complete(fresh),
        NONE if fresh.lag is None else lag_text(fresh.lag),
    )


def _complete(fresh: Freshness) -> Text:
    if fresh.unknown:
        return Text(_NOT_KNOWN, style=QUIET)
    if fresh.complete is None:
        return Text("nothing", style=WARN)
    return Text(fresh.complete.label if isinstance(fresh.complete.grain, Grain) else "all")


def lag_text(lag: timedelta) -> str:
    """`12 days`, `26 h`, `45 min`."""
    if lag >= timedelta(days=2):
        return counted(lag.days, "day")
    if lag >= timedelta(hours=1):
        return f"{lag // timedelta(hours=1)} h"
    return duration(60 * (lag // timedelta(minutes=1))) if lag >= timedelta(minutes=1) else "0 min"


def _last(report: Sequence[ModelStatus], zone: Zone) -> RenderableType | None:
    rows = [(e.model, zone.moment(e.published.published), e.published.id) for e in report if e.published is not None]
    return section(f"Last publish ({zone.name})", table((name(), name(), name()), rows)) if rows else None


def _stale(freshness: Sequence[Freshness]) -> RenderableType | None:
    rows = [row for fresh in freshness for row in _stale_rows(fresh)]
    heads = (name("model"), name("because of"), number("slices"), prose("which"))
    return section("Not up to date", table(heads, rows)) if rows else None


def _stale_rows(fresh: Freshness) -> Iterator[tuple[Cell, ...]]:
    reasons = [
        *fresh.by_input.items(),
        ("code, settings", fresh.by_code),
        ("never built", fresh.missing),
        ("held by a rollback", fresh.held),
        *((f"waits for {table_name}", waiting) for table_name, waiting in fresh.waiting.items()),
    ]
    yield from ((fresh.model, why, count(len(hit)), slices(hit)) for why, hit in reasons if hit)


def _unknown(freshness: Sequence[Freshness]) -> RenderableType | None:
    whys: dict[str, list[str]] = {}
    for fresh in freshness:
        if fresh.unknown:
            whys.setdefault(fresh.unknown, []).append(fresh.model)
    lines = [f"how fresh {', '.join(models)} {_are(models)}: {why}" for why, models in whys.items()]
    lines += [
        f"{fresh.model}: changes of {table_name} can't be seen" for fresh in freshness for table_name in fresh.unseen
    ]
    return section("Not known", bullets(Text(line, style=WARN) for line in lines)) if lines else None


def _are(models: Sequence[str]) -> str:
    return "is" if len(models) == 1 else "are"
