"""Transfers, the engine's steps and snapshots, events, and the store's settings."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates every table."""
    op.create_table(
        "transfers",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("idempotency_key", sa.Text),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("source_path", sa.Text, nullable=False),
        sa.Column("destination", sa.Text, nullable=False),
        sa.Column("destination_path", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("deadline_ns", sa.BigInteger, nullable=False),
        sa.Column("rate_max_bps", sa.BigInteger),
        sa.Column("state", sa.String(16), nullable=False, index=True),
        sa.Column("submitted_ns", sa.BigInteger, nullable=False, index=True),
        sa.Column("started_ns", sa.BigInteger),
        sa.Column("finished_ns", sa.BigInteger),
        sa.Column("bytes_durable", sa.BigInteger, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("planned", sa.Boolean, nullable=False),
        sa.Column("plan_ns", sa.BigInteger, nullable=False),
        sa.Column("risk", sa.Text, nullable=False),
        sa.Column("missed", sa.Boolean, nullable=False),
        sa.Column("file_hash", sa.Text),
        sa.Column("error", sa.Text),
        sa.UniqueConstraint("owner", "idempotency_key"),
    )
    op.create_table(
        "steps",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at_ns", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
    )
    op.create_table(
        "snapshots",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("configuration", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at_ns", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("transfer", sa.String(40)),
        sa.Column("data", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Drops every table."""
    for table in ("events", "snapshots", "steps", "transfers"):
        op.drop_table(table)
