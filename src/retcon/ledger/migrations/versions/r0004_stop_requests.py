"""Who asks the driver of a run to stop."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("retcon_leases", sa.Column("asked_by", TEXT))
    op.add_column("retcon_leases", sa.Column("asked_why", TEXT))
