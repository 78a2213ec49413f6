#!/usr/bin/python3
"""Copies a source with one change that must be noticed: mutate.py SOURCE COPY OLD NEW. OLD must be there once."""

import sys
from pathlib import Path

source, copy, old, new = sys.argv[1:]
text = Path(source).read_text()
if text.count(old) != 1:
    sys.exit(f"mutate: '{old}' is in {source} {text.count(old)} times, not once")
Path(copy).write_text(text.replace(old, new))
