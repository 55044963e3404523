"""Changes too old for a model's window, and what was decided of them."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "retcon_exceptions",
        sa.Column("entry", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("model", TEXT, nullable=False),
        sa.Column("slice", TEXT, nullable=False),
        sa.Column("late", TEXT, nullable=False),
        sa.Column("first_seen", TEXT, nullable=False),
        sa.Column("last_seen", TEXT, nullable=False),
        sa.Column("decision", TEXT, nullable=False),
        sa.Column("run_id", TEXT),
        sa.Column("who", TEXT),
        sa.Column("decided", TEXT),
        sa.Column("reason", TEXT),
    )
    op.create_index("retcon_exceptions_model_slice", "retcon_exceptions", ["model", "slice"])
