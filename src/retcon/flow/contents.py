"""Contents: what an input holds of what a slice reads, in a word that can be compared with what was recorded."""

from __future__ import annotations

from collections.abc import Mapping

from retcon.core.graphs import Graph
from retcon.core.models import Input
from retcon.core.planning import reads_its_slices
from retcon.core.reads import Read
from retcon.core.slices import WHOLE, Cut, Grain, Slice, SliceSet, Whole
from retcon.core.tables import digest_of
from retcon.errors import Refused
from retcon.flow.records import Records

_ALL = Slice(WHOLE, 0)
UNKNOWN = "unknown"
"""The content of an input whose changes can't be seen: whether a slice is stale by it can't be told."""


def is_comparable(content: str | None) -> bool:
    """Does this tell what a slice was computed from?"""
    return content is not None and content != UNKNOWN and not content.startswith(("keys:", "expired:"))


def is_told(i: Input, reader: Cut, graph: Graph) -> bool:
    """Do a model's recorded slices tell what is read of it? Not where it is read by another column."""
    upstream = graph.models.get(i.table)
    if upstream is None or isinstance(upstream.grain, Grain | Whole):
        return upstream is not None
    return reads_its_slices(i, reader, upstream)


def content_of_read(
    read: Read, recorded: Mapping[Slice, str] | None, records: Records, recorded_cut: Cut | None = None
) -> str:
    """What is read, by its rows where a model's own slices tell them, else by its files."""
    try:
        held = records.contents_of(read)
    except Refused:
        # Expired while the run was under way. What was read is staged and proven; what it was can't be named any
        # more, so the slice will count as stale.
        return f"expired:{read.snapshot_id}"
    if not held.tells_changes:
        return UNKNOWN
    known = recorded or {}
    if _ALL in known:
        return f"rows:{known[_ALL]}"
    if read.slices is None:
        return f"files:{held.of(None).digest}"
    cut = read.slices.grain if recorded is None or recorded_cut is None else recorded_cut
    if cut != read.slices.grain and not (isinstance(cut, Grain) and isinstance(read.slices.grain, Grain)):
        return f"files:{held.of(read.slices).digest}"
    parts: list[str] = []
    for slice in read.slices.recut(cut):
        if slice in known:
            parts.append(f"{slice.label}=rows:{known[slice]}")
        else:
            alone = SliceSet(cut, (slice.ordinal,))
            files = alone if cut == read.slices.grain else read.slices & alone.recut(read.slices.grain)
            parts.append(f"{slice.label}=files:{held.digest(files)}")
    return digest_of(parts)
