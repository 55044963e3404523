"""Adopting: may retcon replace slices of a table that others made and write?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from retcon.core.evolution import SchemaChange, change_text, is_built_beside
from retcon.core.models import Model
from retcon.core.slices import SliceSet
from retcon.core.tables import TableFacts
from retcon.errors import Refused
from retcon.values import dataclass

OWNER = "retcon.model"
"""The property that a table made by retcon has."""


@dataclass(frozen=True, kw_only=True)
class SpecInUse:
    """A partitioning of the table that data files still have."""

    partitioning: str
    is_current: bool
    files: int
    straddling: SliceSet
    """Slices of files that hold rows of more than one."""
    unbounded: int = 0
    """Files whose metadata doesn't tell which slices they hold rows of, or that hold rows of none beside others."""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What a table is like, from its metadata."""

    format_version: int
    specs: tuple[SpecInUse, ...]
    slices: SliceSet
    rows: int
    null_rows: int
    deletes: SliceSet
    """Slices that delete files lie in."""
    delete_files: int
    sort_order: str = ""
    takes_branches: bool = False
    """`write.wap.enabled`: sessions of others may write to branches of their own."""


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """The record that a model took over a table that was there before."""

    model: str
    uuid: str
    snapshot_id: int | None
    slices: SliceSet
    """What was there: how it was computed is unknown until it is restated."""
    who: str
    at: datetime
    reason: str


def is_foreign(facts: TableFacts) -> bool:
    """Did others make this table, and write to it?"""
    return facts.snapshot_id is not None and OWNER not in facts.properties


def require_adoptable(model: Model, survey: Survey) -> None:
    """Whole slices can be replaced: every file lies in one slice."""
    if survey.format_version != 2:
        remedy = (
            f"ALTER TABLE {model.name} SET TBLPROPERTIES ('format-version' = '2') upgrades it; no file is rewritten"
            if survey.format_version < 2
            else "tables of format version 2 can be adopted"
        )
        raise _refused(f"{model.name} has Iceberg's format version {survey.format_version}", remedy)
    for spec in survey.specs:
        if not spec.straddling and not spec.unbounded:
            continue
        which = f"{len(spec.straddling):,} slices: {spec.straddling.text}" if spec.straddling else "slices unknown"
        raise _refused(
            f"{model.name}: files that were partitioned by {spec.partitioning} hold rows of more than one slice "
            f"({which[:300]})",
            "rewrite them by the table's current partitioning: "
            f"CALL system.rewrite_data_files(table => '{model.name}', options => map('rewrite-all', 'true'))",
        )


def adoption_notes(survey: Survey, changes: Sequence[SchemaChange]) -> Iterator[str]:
    """What is taken over as it is, and what that means."""
    if not is_built_beside(changes):
        yield from _kept(survey)
    for change in changes:
        yield f"{change_text(change)}: made by the first plan"


def _kept(survey: Survey) -> Iterator[str]:
    for spec in survey.specs:
        if not spec.is_current:
            yield f"{spec.files:,} files are still partitioned by {spec.partitioning}: each lies in one slice"
    if survey.delete_files:
        where = survey.deletes.text[:300] or "the whole table"
        yield f"{survey.delete_files:,} delete files in {where}: they go with the slice when it is restated"
    if survey.null_rows:
        yield f"{survey.null_rows:,} rows have no value in the slice column: they are in no slice, and stay"
    if survey.sort_order:
        yield f"its sort order stays: {survey.sort_order}"
    if survey.takes_branches:
        yield "write.wap.enabled stays: retcon writes to branches of its own"


def require_adopted(model: Model, facts: TableFacts, known: Collection[str], env_option: str) -> None:
    """A table that others made is touched only by the word of somebody: `known` are those adopted or published."""
    if is_foreign(facts) and facts.uuid not in known:
        raise Refused(
            f"{model.name} is a table that retcon neither made nor published",
            state="nothing was written",
            next=f"`retcon adopt {model.name}{env_option} --reason …` checks it and takes it over as it is; "
            "or rename the model",
        )


def _refused(message: str, remedy: str) -> Refused:
    return Refused(message, state="nothing was adopted; the table is as it was", next=remedy)
