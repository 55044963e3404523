"""A model computed slice by slice, against its full refresh."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import amount, change, counted, duration, slices
from retcon.cli.views.parts import (
    BAD,
    GOOD,
    QUIET,
    STRONG,
    WARN,
    Cell,
    bullets,
    command,
    facts,
    more,
    name,
    number,
    section,
    stack,
    table,
    title,
)
from retcon.core.measures import SliceMeasure
from retcon.core.migrations import ComparedSlice, Comparison
from retcon.core.sums import sum_of
from retcon.flow.tell import Change

_SLICES = 20

Measures = dict[str, Decimal | None]


def migration_view(comparison: Comparison, *, may_publish: bool) -> RenderableType:
    """What both ways gave and cost, and what to do now."""
    return stack(
        [
            title("Migration", Text(comparison.model, style=STRONG), _verdict(comparison)),
            facts(_header(comparison)),
            section("Total", _totals(comparison)),
            _slices(comparison),
            section("Likely reasons", bullets(comparison.reasons)) if comparison.reasons else None,
            section("What loads won't do", bullets(Text(note, style=WARN) for note in comparison.notes))
            if comparison.notes
            else None,
            Text(),
            facts(_next_steps(comparison, may_publish)),
        ]
    )


def _verdict(comparison: Comparison) -> Text:
    differing = len(comparison.differing)
    if differing:
        of_all = counted(len(comparison.slices), "slice")
        return Text(f"{differing:,} of {of_all} {'differs' if differing == 1 else 'differ'}", style=BAD)
    if comparison.unsliced:
        return Text("the same in every slice, and rows that are in none", style=BAD)
    return Text("the same in every slice", style=GOOD)


def _header(comparison: Comparison) -> Iterator[tuple[str, RenderableType]]:
    cost = comparison.cost
    yield "run", comparison.run
    yield "compared", f"{slices(comparison.covered)} ({counted(len(comparison.slices), 'slice')})"
    yield "incremental", f"{duration(cost.incremental)} in {counted(cost.waves, 'wave')}, staged beside production"
    of_all = f"{counted(comparison.full_rows, 'row')} in all of history"
    yield "full refresh", f"{duration(cost.full)}, {of_all}, not written"
    if comparison.readers:
        yield "readers", f"{', '.join(comparison.readers)}: restated in the same run, not compared"
    if comparison.differing:
        yield "differ", slices(comparison.differing)
    if comparison.unsliced:
        yield "in no slice", Text(f"{counted(comparison.unsliced, 'row')} of the full refresh", style=BAD)


def _totals(comparison: Comparison) -> RenderableType:
    pairs = total_measures(comparison)
    rows = [(measure, amount(pair.new), amount(pair.old), change(pair)) for measure, pair in pairs.items()]
    return table((name("measure"), number("incremental"), number("full refresh"), number("change")), rows)


def total_measures(comparison: Comparison) -> dict[str, Change]:
    """Rows, and the metrics of which the whole is the sum of the slices."""

    def summed(sides: list[SliceMeasure]) -> Measures:
        values = {m: [v for each in sides if (v := each.metrics.get(m)) is not None] for m in comparison.additive}
        metrics = {m: sum_of(some) if some else None for m, some in values.items()}
        return {"rows": Decimal(sum(each.rows for each in sides)), **metrics}

    full = summed([each.full for each in comparison.slices])
    incremental = summed([each.incremental for each in comparison.slices])
    return {measure: Change(old=full[measure], new=incremental[measure]) for measure in full}


def _slices(comparison: Comparison) -> RenderableType:
    """Those that differ first, where there are many."""
    chosen = sorted(comparison.slices, key=lambda each: each.is_same)[:_SLICES]
    rows = [row for each in sorted(chosen, key=lambda each: each.slice) for row in _slice_rows(each)]
    heads = (
        name("slice"),
        name(),
        name("measure"),
        number("incremental"),
        number("full refresh"),
        number("change"),
        name(),
    )
    left = more(len(comparison.slices) - len(chosen), "slice", "--json has them all")
    return section("Slices", table(heads, rows), *left)


def _slice_rows(compared: ComparedSlice) -> Iterator[tuple[Cell, ...]]:
    full, incremental = _measures(compared.full), _measures(compared.incremental)
    sign = Text("✓ same", style=GOOD) if compared.is_same else Text("✗ differs", style=BAD)
    apart = "" if compared.is_same else Text(f"{counted(compared.apart, 'row')} apart", style=QUIET)
    for position, measure in enumerate(full):
        pair = Change(old=full[measure], new=incremental.get(measure))
        lead: tuple[Cell, ...] = (compared.slice.label, sign) if position == 0 else ("", "")
        values = (amount(pair.new), amount(pair.old), "" if compared.is_same else change(pair))
        yield (*lead, measure, *values, apart if position == 0 else "")


def _measures(measure: SliceMeasure) -> Measures:
    return {"rows": Decimal(measure.rows), **measure.metrics}


def _next_steps(comparison: Comparison, may_publish: bool) -> Iterator[tuple[str, RenderableType]]:
    run = comparison.run
    yield "look", Text.assemble(command("retcon diff", run), ("  what was staged, against production", QUIET))
    give_up = Text.assemble(command("retcon cancel", run), ("  production stays as it is", QUIET))
    if comparison.is_same and may_publish:
        publishes = "  publishes them; from then on `retcon load` keeps it up"
        yield "cut over", Text.assemble(command("retcon apply", run), (publishes, QUIET))
        yield "give up", give_up
    elif comparison.is_same:
        yield "next", Text("both ways give the same; what a gate found is to be answered first")
        yield "give up", give_up
    else:
        yield "next", Text.assemble(command("retcon cancel", run), ("  then mend the model and migrate again", QUIET))


def migration_result(comparison: Comparison) -> dict[str, Any]:
    """The same for machines."""
    return {
        "model": comparison.model,
        "run": comparison.run,
        "same": comparison.is_same,
        "compared": comparison.covered.text,
        "differing": comparison.differing.text,
        "full_refresh_rows": comparison.full_rows,
        "rows_in_no_slice": comparison.unsliced,
        "seconds": {"incremental": comparison.cost.incremental, "full_refresh": comparison.cost.full},
        "waves": comparison.cost.waves,
        "readers": list(comparison.readers),
        "totals": {
            measure: {"incremental": _text(pair.new), "full_refresh": _text(pair.old)}
            for measure, pair in total_measures(comparison).items()
        },
        "slices": [
            {
                "slice": each.slice.label,
                "same": each.is_same,
                "rows_apart": each.apart,
                "incremental": _side(each.incremental),
                "full_refresh": _side(each.full),
            }
            for each in comparison.slices
        ],
        "reasons": list(comparison.reasons),
        "notes": list(comparison.notes),
    }


def _side(measure: SliceMeasure) -> dict[str, Any]:
    return {
        "rows": measure.rows,
        "checksum": measure.checksum,
        "metrics": {metric: _text(value) for metric, value in measure.metrics.items()},
    }


def _text(value: Decimal | None) -> str | None:
    return None if value is None else str(value)
