"""Several paths: over how many a transfer may be sent, and which they are."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the columns; whatever is in the store takes one path."""
    op.add_column(
        "transfers", sa.Column("paths_max", sa.BigInteger, nullable=False, server_default="1")
    )
    op.add_column("transfers", sa.Column("paths", sa.Text))


def downgrade() -> None:
    """Drops the columns."""
    op.drop_column("transfers", "paths")
    op.drop_column("transfers", "paths_max")
