"""What a catalog that commits by itself was asked for, until its outcome is known."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "retcon_outbox",
        sa.Column("run_id", TEXT, sa.ForeignKey("retcon_runs.id"), primary_key=True),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("commits", sa.Text(), nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("at", TEXT, nullable=False),
    )
