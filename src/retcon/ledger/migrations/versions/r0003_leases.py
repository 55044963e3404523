"""Which process drives a run."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "retcon_leases",
        sa.Column("run_id", TEXT, sa.ForeignKey("retcon_runs.id"), primary_key=True),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("host", TEXT, nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("began", TEXT, nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
    )
