"""Answers that wait: by when they come, and the refusal of what was refused in the end."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the columns; whoever is in the store was answered at once."""
    op.add_column("transfers", sa.Column("answer_ns", sa.BigInteger))
    op.add_column("transfers", sa.Column("refusal", sa.Text))


def downgrade() -> None:
    """Drops the columns."""
    op.drop_column("transfers", "refusal")
    op.drop_column("transfers", "answer_ns")
