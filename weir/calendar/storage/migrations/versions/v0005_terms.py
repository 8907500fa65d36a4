"""What a request asks for beyond a deadline: a start, a least size, a weight."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

COLUMNS = ("start_ns", "least_bytes", "promised_bytes", "weight")


def upgrade() -> None:
    """Adds the columns; who is in the store asked for nothing of it."""
    for name in COLUMNS:
        op.add_column("transfers", sa.Column(name, sa.BigInteger))
    op.execute("UPDATE transfers SET weight = 1")


def downgrade() -> None:
    """Drops the columns."""
    for name in COLUMNS:
        op.drop_column("transfers", name)
