"""Checksums of keys that were found to be unique."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("retcon_slices", sa.Column("key_checksums", TEXT))
