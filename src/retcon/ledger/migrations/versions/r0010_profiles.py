"""What columns looked like when a run was proven."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "retcon_profiles",
        sa.Column("run_id", TEXT, sa.ForeignKey("retcon_runs.id"), primary_key=True),
        sa.Column("model", TEXT, primary_key=True),
        sa.Column("slice", TEXT, primary_key=True),
        sa.Column("column_name", TEXT, primary_key=True),
        sa.Column("side", TEXT, primary_key=True),
        sa.Column("profile", TEXT, nullable=False),
    )
    op.create_index("retcon_profiles_model_slice", "retcon_profiles", ["model", "slice"])
