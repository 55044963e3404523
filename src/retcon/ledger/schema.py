"""The ledger's tables, as this version of retcon knows them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    UniqueConstraint,
)

from retcon.ledger.columns import COUNTER, Document, Moment, Words

METADATA = MetaData()

RUNS = Table(
    "retcon_runs",
    METADATA,
    Column("id", Words, primary_key=True),
    Column("kind", Words, nullable=False),
    Column("state", Words, nullable=False),
    Column("plan", Document, nullable=False),
    Column("who", Words, nullable=False),
    Column("created", Moment, nullable=False),
    Column("updated", Moment, nullable=False),
    Column("tables", Document, nullable=False),
    Column("pins", Document, nullable=False),
    Column("run_ts", Words),
    Column("totals", Document, nullable=False),
    Column("published", Moment),
    Column("rolled_back", Moment),
    Column("why_ended", Words),
    # Publishes of one table stand in the order of their commits, whatever the drivers' clocks said.
    Column("publish_order", BigInteger, unique=True),
)

WAVES = Table(
    "retcon_waves",
    METADATA,
    Column("run_id", Words, ForeignKey("retcon_runs.id"), primary_key=True),
    Column("model", Words, primary_key=True),
    Column("wave", Integer, primary_key=True, autoincrement=False),
    Column("slices", Words, nullable=False),
    Column("state", Words, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("snapshot_id", BigInteger),
    Column("seconds", Double),
    Column("scans", Document, nullable=False),
    Column("error", Words),
    Index("retcon_waves_model", "model"),
)

SLICES = Table(
    "retcon_slices",
    METADATA,
    Column("run_id", Words, ForeignKey("retcon_runs.id"), primary_key=True),
    Column("model", Words, primary_key=True),
    Column("slice", Words, primary_key=True),
    Column("wave", Integer, nullable=False),
    Column("state", Words, nullable=False),
    Column("rows", BigInteger),
    Column("bytes", BigInteger),
    Column("files", BigInteger),
    Column("checksum", Words),
    Column("old_rows", BigInteger),
    Column("old_checksum", Words),
    Column("metrics", Document, nullable=False),
    Column("key_checksums", Document),
    Index("retcon_slices_model_slice", "model", "slice"),
)

CONSUMPTION = Table(
    "retcon_consumption",
    METADATA,
    Column("run_id", Words, ForeignKey("retcon_runs.id"), primary_key=True),
    Column("model", Words, primary_key=True),
    Column("slice", Words, primary_key=True),
    Column("input", Words, primary_key=True),
    Column("input_table", Words, nullable=False),
    Column("snapshot_id", BigInteger),
    Column("content", Words, nullable=False),
    Index("retcon_consumption_model_slice", "model", "slice"),
)

VERDICTS = Table(
    "retcon_verdicts",
    METADATA,
    Column("run_id", Words, ForeignKey("retcon_runs.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("model", Words, nullable=False),
    Column("gate", Words, nullable=False),
    Column("kind", Words, nullable=False),
    Column("summary", Words, nullable=False),
    Column("findings", Document, nullable=False),
    Column("override", Words),
    # 1: what it objects to holds nothing up.
    Column("warns", Integer, nullable=False, server_default="0"),
)

PROFILES = Table(
    "retcon_profiles",
    METADATA,
    Column("run_id", Words, ForeignKey("retcon_runs.id"), primary_key=True),
    Column("model", Words, primary_key=True),
    # Empty: all planned slices together.
    Column("slice", Words, primary_key=True),
    Column("column_name", Words, primary_key=True),
    Column("side", Words, primary_key=True),
    Column("profile", Document, nullable=False),
    Index("retcon_profiles_model_slice", "model", "slice"),
)

EVENTS = Table(
    "retcon_events",
    METADATA,
    Column("entry", COUNTER, primary_key=True),
    Column("run_id", Words, ForeignKey("retcon_runs.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("at", Words, nullable=False),
    Column("who", Words, nullable=False),
    Column("kind", Words, nullable=False),
    Column("body", Document, nullable=False),
    Column("previous", Words, nullable=False),
    Column("hash", Words, nullable=False),
    UniqueConstraint("run_id", "number", name="retcon_events_run_number"),
)

ADOPTIONS = Table(
    "retcon_adoptions",
    METADATA,
    Column("model", Words, primary_key=True),
    Column("uuid", Words, primary_key=True),
    Column("snapshot_id", BigInteger),
    Column("grain", Words, nullable=False),
    Column("slices", Words, nullable=False),
    Column("who", Words, nullable=False),
    Column("at", Moment, nullable=False),
    Column("reason", Words, nullable=False),
)

LEASES = Table(
    "retcon_leases",
    METADATA,
    Column("run_id", Words, ForeignKey("retcon_runs.id"), primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("who", Words, nullable=False),
    Column("host", Words, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("began", Words, nullable=False),
    # Seconds since 1970 by the database's own clock.
    Column("until", Double, nullable=False),
    # Somebody wants this driver to stop.
    Column("asked_by", Words),
    Column("asked_why", Words),
)

OUTBOX = Table(
    "retcon_outbox",
    METADATA,
    Column("run_id", Words, ForeignKey("retcon_runs.id"), primary_key=True),
    Column("kind", Words, nullable=False),
    Column("event", Document, nullable=False),
    Column("commits", Document, nullable=False),
    Column("who", Words, nullable=False),
    Column("at", Moment, nullable=False),
)

WATERMARKS = Table(
    "retcon_watermarks",
    METADATA,
    Column("entry", COUNTER, primary_key=True),
    Column("model", Words, nullable=False),
    Column("input", Words, nullable=False),
    Column("input_table", Words, nullable=False),
    # 0: unset, by a rollback or a person.
    Column("is_set", Integer, nullable=False),
    Column("uuid", Words, nullable=False),
    Column("snapshot_id", BigInteger),
    Column("value", Words),
    Column("run_id", Words, ForeignKey("retcon_runs.id")),
    Column("who", Words, nullable=False),
    Column("at", Moment, nullable=False),
    Column("why", Words, nullable=False),
    Column("looked", Moment),
    Index("retcon_watermarks_model_input", "model", "input"),
)

EXCEPTIONS = Table(
    "retcon_exceptions",
    METADATA,
    Column("entry", COUNTER, primary_key=True),
    Column("model", Words, nullable=False),
    Column("slice", Words, nullable=False),
    # Contents, rows and metrics, as they were when it was last seen.
    Column("late", Document, nullable=False),
    Column("first_seen", Moment, nullable=False),
    Column("last_seen", Moment, nullable=False),
    Column("decision", Words, nullable=False),
    # No foreign key: a plan that was approved has no run before it is applied.
    Column("run_id", Words),
    Column("who", Words),
    Column("decided", Moment),
    Column("reason", Words),
    Index("retcon_exceptions_model_slice", "model", "slice"),
)

SCHEDULES = Table(
    "retcon_schedules",
    METADATA,
    Column("model", Words, primary_key=True),
    Column("kind", Words, primary_key=True),
    Column("done", Moment),
    Column("ended", Moment),
    Column("trouble", Words, nullable=False),
    # The time that a process is at, or was at last, and by which claim; none: nobody is.
    Column("due", Moment),
    Column("claim", Words),
    Column("who", Words),
    Column("host", Words),
    Column("pid", Integer),
    Column("began", Words),
    # Seconds since 1970 by the database's own clock.
    Column("until", Double),
)

DELIVERIES = Table(
    "retcon_deliveries",
    METADATA,
    Column("hook", Words, primary_key=True),
    Column("movement", BigInteger, ForeignKey("retcon_watermarks.entry"), primary_key=True, autoincrement=False),
    Column("tries", Integer, nullable=False),
    Column("tried", Moment),
    Column("delivered", Moment),
    Column("error", Words),
)
