"""Verdicts, with what they object to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.views.parts import BAD, GOOD, QUIET, WARN, Cell, more, name, prose, section, table
from retcon.core.runs import RecordedVerdict

_FINDINGS = 3


def verdicts_table(verdicts: Sequence[RecordedVerdict]) -> RenderableType:
    """Every gate with what came out, and the first things it objects to."""
    heads = (name("model"), name("gate"), name("verdict"), prose("measured"))
    rows: list[tuple[Cell, ...]] = []
    before = ""
    for each in verdicts:
        verdict = each.verdict
        rows.append((verdict.model if verdict.model != before else "", verdict.gate, sign_of(each), verdict.summary))
        rows += [("", "", "", line) for line in objections_of(each)]
        before = verdict.model
    return table(heads, rows)


def warnings_section(verdicts: Sequence[RecordedVerdict]) -> RenderableType | None:
    """What gates that only warn object to."""
    warned = [each for each in verdicts if each.verdict.is_warning]
    return section("Warnings", verdicts_table(warned)) if warned else None


def sign_of(each: RecordedVerdict) -> Text:
    if each.verdict.is_warning:
        return Text("! warns", style=WARN)
    if each.verdict.passed:
        return Text("✓ holds", style=GOOD)
    return Text("✗ failed", style=BAD) if each.override is None else Text("⊘ overridden", style=WARN)


def objections_of(each: RecordedVerdict) -> Iterator[Text]:
    if each.override is not None:
        yield Text(f"answered for: {each.override}", style=WARN)
    findings = each.verdict.findings
    for finding in findings[:_FINDINGS]:
        yield Text(f"{finding.slice}: {finding.text}" if finding.slice else finding.text, style=QUIET)
    yield from more(len(findings) - _FINDINGS, "finding")
