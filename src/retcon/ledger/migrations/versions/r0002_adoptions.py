"""Tables that models took over."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "retcon_adoptions",
        sa.Column("model", TEXT, primary_key=True),
        sa.Column("uuid", TEXT, primary_key=True),
        sa.Column("snapshot_id", sa.BigInteger()),
        sa.Column("grain", TEXT, nullable=False),
        sa.Column("slices", TEXT, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("at", TEXT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
    )
