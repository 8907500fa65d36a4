"""One row about the service: whose turn it is, and its time."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the row; time goes on after the newest event.

    Until here the engine's time was the wall clock's, and may be ahead of every event. So its
    state is dropped, which has every active transfer planned anew at the next start.
    """
    service = op.create_table(
        "service",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("engine_ns", sa.BigInteger),
        sa.Column("offset_ns", sa.BigInteger, nullable=False),
        sa.Column("boot_id", sa.Text, nullable=False),
        sa.Column("boot_ns", sa.BigInteger, nullable=False),
    )
    newest_ns = op.get_bind().scalar(sa.text("SELECT max(at_ns) FROM events"))
    row = {"id": 1, "generation": 0, "engine_ns": newest_ns, "offset_ns": 0}
    op.bulk_insert(service, [row | {"boot_id": "", "boot_ns": 0}])
    op.execute("DELETE FROM snapshots")


def downgrade() -> None:
    """Drops the row."""
    op.drop_table("service")
