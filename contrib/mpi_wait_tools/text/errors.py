"""The one exception that ends a command: its text is for the person who typed it."""

from __future__ import annotations


class Refusal(Exception):
    """What was asked cannot be answered. The message is one line, and says what helps."""


class NoRecord(Refusal):
    """Of a job that has ended and left none."""
