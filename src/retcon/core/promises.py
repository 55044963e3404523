"""What can be promised of a source that isn't an Iceberg table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retcon.core.models import Model
from retcon.core.projects import Settings, Source
from retcon.core.tables import TableContents

DELTA, JDBC = "delta", "jdbc"

_PINNED = "pinned by its version"
_COMPARED = "not pinned: its files are compared before staging and before the publish, and a change refuses the run"
_UNSEEN = "not pinned, and changes can't be seen: what it holds when it is read is what counts"
_LOOKED_AT = (
    "not pinned: its rows are compared by {} when a plan is made and before it is staged, and a change in between "
    "refuses the run; what changes after that comes with the next load"
)
_NO_SLICES = "which slices it holds can't be told without reading it: holes aren't looked for, and any change counts"


_BY_VERSION = "loads see its version: any change restates every slice that reads it"
_BY_FILES = "loads see its files' names, sizes and times: a change restates the days of its folder, or every slice"
_NOT_AT_ALL = (
    "loads can't see its changes: `updated: COLUMN` in retcon.yaml lets them, where rows say when they changed"
)


def seen_of(source: Source) -> str:
    """What loads see of changes to this source, and what they don't."""
    column = source.updated
    if column is not None and source.key:
        return (
            f"every load compares {', '.join(source.key)} and {column} of all rows, slice by slice: rows that are new, "
            f"changed, gone or moved are seen. Not seen: changes that leave {column} as it was"
        )
    if column is not None:
        return (
            f"loads look at rows whose {column} isn't older than the watermark less `replay.reprocess`. Not seen: "
            f"deleted rows, the slice that a moved row left, rows that come in later with an older {column}, changes "
            f"that leave {column} as it was. `key: [COLUMN]` lets every load compare all slices; "
            "`retcon plan --changed` does so in any case"
        )
    if source.format == DELTA and source.local_path is not None:
        return _BY_VERSION
    return _NOT_AT_ALL if source.local_path is None or source.format == JDBC else _BY_FILES


def promise_of(source: Source) -> str:
    """What retcon can do about changes of this source while a run is under way."""
    if source.updated is not None and not (source.format == DELTA and source.local_path is not None):
        return _LOOKED_AT.format(source.updated)
    if source.local_path is None:
        return _UNSEEN
    return _PINNED if source.format == DELTA else _COMPARED


def promises(source: Source, held: TableContents | None, *, by_slices: bool) -> Iterator[str]:
    """The same, and what a plan can't know, in the words of its notes."""
    name = f"{source.name} ({source.format})"
    yield f"{name}: {promise_of(source)}"
    if by_slices and (held is None or not held.tells_slices):
        yield f"{name}: {_NO_SLICES}"


def notes_on_updated(models: Sequence[Model], settings: Settings) -> Iterator[str]:
    """What is said of `updated` and means nothing."""
    read = {i.table for model in models for i in model.inputs}
    for source in settings.sources.values():
        if source.name in read and source.format is None and source.updated is not None:
            yield f"{source.name}: `updated`: it is an Iceberg table, whose own history tells what changed"
        if source.name in read and source.format is not None and source.key and source.updated is None:
            yield f"{source.name}: `key`: loads compare keys where `updated` says when rows changed"
    for model in models:
        sources = [settings.foreign[i.table] for i in model.inputs if i.table in settings.foreign]
        if model.replay.reprocess_days and not any(s.updated is not None and not s.key for s in sources):
            yield f"{model.name}: `replay.reprocess`: no input of it is known by an `updated` column alone"
