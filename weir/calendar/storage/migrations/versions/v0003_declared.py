"""The size that a transfer was declared to have, beside the true one."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column; who is in the store was admitted with the size that is known."""
    op.add_column("transfers", sa.Column("declared_bytes", sa.BigInteger))
    op.execute("UPDATE transfers SET declared_bytes = size_bytes")


def downgrade() -> None:
    """Drops the column."""
    op.drop_column("transfers", "declared_bytes")
