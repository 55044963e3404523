"""What can be promised of a source that isn't an Iceberg table."""

from __future__ import annotations

from collections.abc import Iterator

from retcon.core.projects import Source
from retcon.core.tables import TableContents

DELTA, JDBC = "delta", "jdbc"

_PINNED = "pinned by its version"
_COMPARED = "not pinned: its files are compared before staging and before the publish, and a change refuses the run"
_UNSEEN = "not pinned, and changes can't be seen: what it holds when it is read is what counts"
_NO_SLICES = "which slices it holds can't be told without reading it: holes aren't looked for, and any change counts"


def promise_of(source: Source) -> str:
    """What retcon can do about changes of this source while a run is under way."""
    if source.local_path is None:
        return _UNSEEN
    return _PINNED if source.format == DELTA else _COMPARED


def promises(source: Source, held: TableContents | None, *, by_slices: bool) -> Iterator[str]:
    """The same, and what a plan can't know, in the words of its notes."""
    name = f"{source.name} ({source.format})"
    yield f"{name}: {promise_of(source)}"
    if by_slices and (held is None or not held.tells_slices):
        yield f"{name}: {_NO_SLICES}"
