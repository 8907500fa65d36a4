"""Whose request a refusal refused, and what `weir why` looks things up by."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

COLUMNS = ("request", "owner", "idempotency_key")
# Name, table, column; each holds only the rows that have a value there.
INDEXES = (
    ("events_transfer", "events", "transfer"),
    ("events_request", "events", "request"),
    ("events_owner", "events", "owner"),
    ("transfers_finished", "transfers", "finished_ns"),
)


def upgrade() -> None:
    """Adds the columns, empty for events that are there, and the indexes."""
    for name in COLUMNS:
        op.add_column("events", sa.Column(name, sa.Text))
    for name, table, column in INDEXES:
        there = sa.text(f"{column} IS NOT NULL")
        op.create_index(name, table, [column], sqlite_where=there, postgresql_where=there)


def downgrade() -> None:
    """Drops both."""
    for name, table, _ in INDEXES:
        op.drop_index(name, table)
    for name in COLUMNS:
        op.drop_column("events", name)
