"""Gates that only warn; what hooks are told of watermarks."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("retcon_verdicts", sa.Column("warns", sa.Integer(), nullable=False, server_default="0"))
    op.create_table(
        "retcon_deliveries",
        sa.Column("hook", TEXT, primary_key=True),
        sa.Column(
            "movement",
            sa.BigInteger(),
            sa.ForeignKey("retcon_watermarks.entry"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("tried", TEXT),
        sa.Column("delivered", TEXT),
        sa.Column("error", TEXT),
    )
