"""What was decided, kept on disk by one service at a time: SQLite or PostgreSQL."""
