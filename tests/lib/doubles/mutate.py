#!/usr/bin/python3
"""Copies a source with changes that tests must notice: mutate.py SOURCE COPY OLD NEW... Each OLD must occur exactly
once."""

import sys
from pathlib import Path

source, copy, *words = sys.argv[1:]
text = Path(source).read_text()
for old, new in zip(words[::2], words[1::2]):
    if text.count(old) != 1:
        sys.exit(f"mutate: '{old}' is in {source} {text.count(old)} times, not once")
    text = text.replace(old, new)
Path(copy).write_text(text)
