"""One record as classes: whatever is read, is read as hostile."""
