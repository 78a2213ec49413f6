"""What every page that mpi-wait writes must be."""

from __future__ import annotations

import re

import html5lib

LOADS = re.compile(r"(?i)https?:|//[a-z]|\bsrc\s*=|\bhref\s*=|@import|url\(|<script|<link|<iframe|\bon[a-z]+\s*=")


def checked(text: str) -> None:
    """Valid to the parser that browsers' rules are written down in, and of itself alone."""
    html5lib.HTMLParser(strict=True).parse(text)
    assert not LOADS.search(re.sub(r"&[a-z0-9#]+;", "", text)), "the page would load or run something"
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", text)
    assert text.count("<svg") == text.count('role="img" aria-label="')
