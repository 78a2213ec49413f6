"""The command: what one job's ranks waited for, or two jobs beside each other."""
