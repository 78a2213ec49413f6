"""The command: the jobs of a time by what their waiting cost."""
