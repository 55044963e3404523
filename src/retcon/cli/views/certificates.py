"""What a publish did to each table, file by file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import NONE, count, counted
from retcon.cli.views.parts import (
    BAD,
    GOOD,
    QUIET,
    STRONG,
    WARN,
    Cell,
    bullets,
    facts,
    name,
    prose,
    section,
    stack,
    table,
    title,
)
from retcon.cli.views.states import state_text
from retcon.cli.views.verdicts import verdicts_table
from retcon.core.certificates import TableCertificate
from retcon.core.runs import RecordedVerdict, Run
from retcon.flow.tell import AfterReport, RunReport


def followed_up_section(report: RunReport) -> RenderableType | None:
    """What was looked at after a publish: the manifests of its tables, and the gates on production."""
    parts = [certificate_section(report.certificates), after_section(report.after)]
    return stack(parts) if any(part is not None for part in parts) else None


def after_section(after: AfterReport | None) -> RenderableType | None:
    """The gates on production: mostly a line, since the files that they were judged on are the published ones."""
    if after is None:
        return None
    lines: list[Cell] = []
    if after.held:
        lines.append(
            f"{counted(after.held, 'verdict')} stand: the files that they were passed on are the published ones"
        )
    lines += [f"{key}: {why}" for key, why in after.unjudged.items()]
    again = [RecordedVerdict(verdict=verdict) for verdict in after.verdicts]
    return section("In production", bullets(lines), *([verdicts_table(again)] if again else []))


def certificate_section(certificates: Sequence[TableCertificate]) -> RenderableType | None:
    """One line for each table; more where something is wrong."""
    rows: list[tuple[Cell, ...]] = []
    for each in certificates:
        rows.append((each.table, _sign(each), _outside(each), _inside(each)))
        rows += [("", "", Text(line, style=BAD), "") for line in each.problems]
        rows += [("", "", Text(line, style=WARN), "") for line in each.unknown]
    heads = (name("table"), name("by manifests"), prose("outside the scope"), prose("inside"))
    return section("Certificate", table(heads, rows)) if rows else None


def certificate_view(run: Run, certificates: Sequence[TableCertificate]) -> RenderableType:
    """All that was found."""
    head = title("Certificate of run", Text(run.id, style=STRONG), state_text(run.state))
    return stack([head, *(section(each.table, facts(_facts(each))) for each in certificates)])


def _facts(each: TableCertificate) -> Iterator[tuple[str, RenderableType]]:
    yield "by manifests", _sign(each)
    yield "scope", each.slices
    if each.took_place_of is not None:
        yield "built anew", f"the table from before is {each.took_place_of}"
    yield "snapshot before", NONE if each.base is None else str(each.base)
    yield "snapshot published", str(each.published)
    yield "outside", f"{counted(each.files_outside, 'file')}, {counted(each.rows_outside, 'row')}, in both"
    yield "digest before", each.digest_before
    yield "digest after", each.digest_after
    yield "inside", _inside(each)
    opened = f"{count(each.manifests_opened)} opened, {count(each.manifests_shared)} shared and only counted"
    yield "manifests", Text(opened, style=QUIET)
    for problem in each.problems:
        yield "wrong", Text(problem, style=BAD)
    for why in each.unknown:
        yield "unknown", Text(why, style=WARN)


def _sign(each: TableCertificate) -> Text:
    if each.problems:
        return Text("✗ doesn't hold", style=BAD)
    return Text("? can't be told", style=WARN) if each.unknown else Text("✓ holds", style=GOOD)


def _outside(each: TableCertificate) -> str:
    if each.took_place_of is not None:
        return f"nothing: built anew, {each.took_place_of} is the table from before"
    if not each.files_outside:
        return "nothing"
    return f"{counted(each.files_outside, 'file')}, {counted(each.rows_outside, 'row')}: as they were"


def _inside(each: TableCertificate) -> str:
    proven = "as proven" if each.is_proven_inside else "not as proven"
    return f"{count(each.files_replaced)} → {counted(each.files_inside, 'file')}, {proven}"
