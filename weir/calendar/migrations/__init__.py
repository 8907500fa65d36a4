"""Versions of the store's tables, oldest first; Alembic applies what is missing."""
