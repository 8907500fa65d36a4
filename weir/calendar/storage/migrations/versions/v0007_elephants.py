"""The elephants that applications tell of, one row for each until it is over."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the table."""
    op.create_table(
        "elephants",
        sa.Column("id", sa.String(255), primary_key=True),
        sa.Column("document", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Drops the table."""
    op.drop_table("elephants")
