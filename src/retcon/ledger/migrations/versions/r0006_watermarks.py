"""How far loads have consumed each input: every movement, the newest one holds."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "retcon_watermarks",
        sa.Column("entry", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("model", TEXT, nullable=False),
        sa.Column("input", TEXT, nullable=False),
        sa.Column("input_table", TEXT, nullable=False),
        sa.Column("is_set", sa.Integer(), nullable=False),
        sa.Column("uuid", TEXT, nullable=False),
        sa.Column("snapshot_id", sa.BigInteger()),
        sa.Column("value", TEXT),
        sa.Column("run_id", TEXT, sa.ForeignKey("retcon_runs.id")),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("at", TEXT, nullable=False),
        sa.Column("why", TEXT, nullable=False),
    )
    op.create_index("retcon_watermarks_model_input", "retcon_watermarks", ["model", "input"])
