"""Which scene of `tests/spark/test_crashes.py` tries which step: together, all that there are."""

from __future__ import annotations

COVERS: dict[str, frozenset[str]] = {
    "a backfill": frozenset(
        {
            "RunOpened recorded",
            "lease taken",
            "ApplyBegan recorded",
            "branch opened",
            "TablesOpened recorded",
            "wave committed",
            "WaveStaged recorded",
            "StagingDone recorded",
            "ProvingBegan recorded",
            "Judged recorded",
            "metadata written",
            "PublishBegan recorded",
            "pointers swapped, COMMIT not sent",
            "Published recorded",
            "Certified recorded",
            "CheckedAfter recorded",
        }
    ),
    "a first backfill": frozenset({"ledger migrated", "InputsJudged recorded", "table made"}),
    "a new column": frozenset({"columns changed"}),
    "an override": frozenset({"GateOverridden recorded"}),
    "a wave that fails, and a pause": frozenset({"WaveFailed recorded", "Paused recorded", "Resumed recorded"}),
    "a refused publish": frozenset({"PublishRefused recorded"}),
    "a cancellation": frozenset({"Cancelled recorded", "branch dropped", "table dropped"}),
    "a rollback": frozenset({"RollbackBegan recorded", "RolledBack recorded"}),
    "a rollback around others": frozenset(
        {"branch opened", "wave committed", "metadata written", "pointers swapped, COMMIT not sent"}
    ),
    "a reproduction": frozenset({"Reproduced recorded"}),
    "a sweep": frozenset({"refs dropped", "old version dropped"}),
    "others that add rows": frozenset({"Rebased recorded", "branch carried over"}),
    "a REST catalog": frozenset({"intent recorded", "group committed by the catalog"}),
    "a REST catalog that says no": frozenset({"intent withdrawn"}),
    "a restored ledger": frozenset({"Rebuilt recorded"}),
    "a load": frozenset({"SlicesKept recorded", "pointers swapped, COMMIT not sent", "Published recorded"}),
    "a load of nothing": frozenset({"watermarks moved"}),
    "a check by hand": frozenset({"SampleChecked recorded"}),
    "a decision": frozenset({"exceptions decided"}),
    "a load on schedule": frozenset({"schedules claimed", "end of schedules recorded"}),
    "a hook": frozenset({"hook called", "delivery recorded", "watermarks moved"}),
    "an adoption": frozenset({"adoption recorded"}),
}
