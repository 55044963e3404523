"""What is known of tables without a JVM: the project, the ledger, and Iceberg's metadata."""

from __future__ import annotations

from dataclasses import dataclass, field

from retcon.core.projects import Project
from retcon.core.reads import Read
from retcon.core.slices import Cut
from retcon.core.tables import TableContents
from retcon.flow.ports import Questions, Tables


@dataclass(kw_only=True)
class Records:
    """Looked at together, and remembered where it can't change."""

    project: Project
    ledger: Questions
    tables: Tables
    _contents: dict[tuple[str, str | None, Cut, int | None], TableContents] = field(default_factory=dict)

    def contents(self, table: str, time: str | None, cut: Cut, snapshot_id: int | None) -> TableContents:
        """A table's files at a snapshot: these never change, so they are read once."""
        key = (table, time, cut, snapshot_id)
        if key not in self._contents:
            self._contents[key] = self.tables.contents(table, time=time, grain=cut, snapshot_id=snapshot_id)
        return self._contents[key]

    def contents_of(self, read: Read) -> TableContents:
        """The files of what is read, in the slices that it is read in."""
        by = None if read.slices is None else read.by
        return self.contents(read.table, by, read.cut, read.snapshot_id)
