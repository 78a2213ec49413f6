"""Interprets records: verdicts, advice, comparisons. Prints nothing."""
