"""Gates that only warn."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("retcon_verdicts", sa.Column("warns", sa.Integer(), nullable=False, server_default="0"))
