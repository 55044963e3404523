"""Which times of each model's schedules are done, and which one a process is at."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "retcon_schedules",
        sa.Column("model", TEXT, primary_key=True),
        sa.Column("kind", TEXT, primary_key=True),
        sa.Column("done", TEXT),
        sa.Column("ended", TEXT),
        sa.Column("trouble", TEXT, nullable=False),
        sa.Column("due", TEXT),
        sa.Column("claim", TEXT),
        sa.Column("who", TEXT),
        sa.Column("host", TEXT),
        sa.Column("pid", sa.Integer()),
        sa.Column("began", TEXT),
        sa.Column("until", sa.Double()),
    )
