"""The first ledger: runs, waves, slices, consumption, verdicts, events."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "retcon_runs",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("created", TEXT, nullable=False),
        sa.Column("updated", TEXT, nullable=False),
        sa.Column("tables", sa.Text(), nullable=False),
        sa.Column("pins", sa.Text(), nullable=False),
        sa.Column("run_ts", TEXT),
        sa.Column("totals", sa.Text(), nullable=False),
        sa.Column("published", TEXT),
        sa.Column("rolled_back", TEXT),
        sa.Column("why_ended", TEXT),
        sa.Column("publish_order", sa.BigInteger(), unique=True),
    )
    op.create_table(
        "retcon_waves",
        sa.Column("run_id", TEXT, sa.ForeignKey("retcon_runs.id"), primary_key=True),
        sa.Column("model", TEXT, primary_key=True),
        sa.Column("wave", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("slices", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger()),
        sa.Column("seconds", sa.Double()),
        sa.Column("scans", sa.Text(), nullable=False),
        sa.Column("error", TEXT),
    )
    op.create_index("retcon_waves_model", "retcon_waves", ["model"])
    op.create_table(
        "retcon_slices",
        sa.Column("run_id", TEXT, sa.ForeignKey("retcon_runs.id"), primary_key=True),
        sa.Column("model", TEXT, primary_key=True),
        sa.Column("slice", TEXT, primary_key=True),
        sa.Column("wave", sa.Integer(), nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("rows", sa.BigInteger()),
        sa.Column("bytes", sa.BigInteger()),
        sa.Column("files", sa.BigInteger()),
        sa.Column("checksum", TEXT),
        sa.Column("old_rows", sa.BigInteger()),
        sa.Column("old_checksum", TEXT),
        sa.Column("metrics", sa.Text(), nullable=False),
    )
    op.create_index("retcon_slices_model_slice", "retcon_slices", ["model", "slice"])
    op.create_table(
        "retcon_consumption",
        sa.Column("run_id", TEXT, sa.ForeignKey("retcon_runs.id"), primary_key=True),
        sa.Column("model", TEXT, primary_key=True),
        sa.Column("slice", TEXT, primary_key=True),
        sa.Column("input", TEXT, primary_key=True),
        sa.Column("input_table", TEXT, nullable=False),
        sa.Column("snapshot_id", sa.BigInteger()),
        sa.Column("content", TEXT, nullable=False),
    )
    op.create_index("retcon_consumption_model_slice", "retcon_consumption", ["model", "slice"])
    op.create_table(
        "retcon_verdicts",
        sa.Column("run_id", TEXT, sa.ForeignKey("retcon_runs.id"), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("model", TEXT, nullable=False),
        sa.Column("gate", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("summary", TEXT, nullable=False),
        sa.Column("findings", sa.Text(), nullable=False),
        sa.Column("override", TEXT),
    )
    op.create_table(
        "retcon_events",
        sa.Column("entry", COUNTER, primary_key=True),
        sa.Column("run_id", TEXT, sa.ForeignKey("retcon_runs.id"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", TEXT, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("previous", TEXT, nullable=False),
        sa.Column("hash", TEXT, nullable=False),
        sa.UniqueConstraint("run_id", "number", name="retcon_events_run_number"),
    )
