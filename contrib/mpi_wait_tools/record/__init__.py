"""Reads a record into classes. Its text may be hostile, so every value is checked."""
