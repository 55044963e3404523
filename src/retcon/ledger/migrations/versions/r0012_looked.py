"""When a load looked at an input, which may be long before it was published."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("retcon_watermarks", sa.Column("looked", TEXT))
