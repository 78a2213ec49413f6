"""What records mean: verdicts, advice, comparisons. No output."""
