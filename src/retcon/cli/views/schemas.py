"""The columns of a table, through time."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import NONE, Zone
from retcon.cli.views.parts import QUIET, STRONG, Cell, name, number, prose, stack, table, title
from retcon.core.evolution import ColumnStep, Step


def schema_view(model: str, steps: Sequence[ColumnStep], zone: Zone) -> RenderableType:
    """Which column had which type from which snapshot on, oldest first."""
    heads = (number("snapshot"), name(f"since ({zone.name})"), name("column"), prose("type"), name("run"))
    return stack([title("Columns", Text(model, style=STRONG)), table(heads, (_row(step, zone) for step in steps))])


def _row(step: ColumnStep, zone: Zone) -> tuple[Cell, ...]:
    version = step.version
    since = "no snapshot yet" if version.at is None else zone.moment(version.at)
    return (
        NONE if version.snapshot_id is None else str(version.snapshot_id),
        f"{since} or earlier" if version.is_oldest_kept else since,
        step.column,
        _type(step),
        version.run or Text(NONE, style=QUIET),
    )


def _type(step: ColumnStep) -> str:
    match step.step:
        case Step.ADDED:
            return f"{step.type}, added"
        case Step.CHANGED:
            return f"{step.type}, was {step.before}"
        case Step.RENAMED:
            return f"{step.type}, renamed from {step.before}"
        case Step.DROPPED:
            return f"dropped, was {step.before}"
        case _:
            return step.type
