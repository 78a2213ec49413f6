"""What every page has: its style sheet, for light, dark and print, and the document around its parts."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable

from ..text.errors import Refusal
from ..text.units import safe
from .svg import text_of

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1f2d3a; --quiet: #5d6b76; --faint: #dfe4e8; --rest: #edf0f2;
  --asleep: #2878b5; --awake: #f0a43a; --waiting: #8a6fa8; --transfer: #b9c2c9; --power: #3b8f6a;
  --good: #2f7d4f; --look: #9a6400; --bad: #b3352f; }
@media (prefers-color-scheme: dark) { :root { --paper: #161b21; --ink: #dbe2e8; --quiet: #98a6b1; --faint: #323b44;
  --rest: #29313a; --asleep: #5aa5de; --awake: #f0b45f; --waiting: #b79bd4; --transfer: #6d7780; --power: #6cbf98;
  --good: #7fcb9b; --look: #e8b45a; --bad: #f08a84; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem; max-width: 60rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin: 1.8rem 0 .5rem; }
p { margin: .4rem 0; } .quiet, .rule { color: var(--quiet); } .rule { font-size: .85em; }
.stamp { border: 2px solid var(--bad); color: var(--bad); padding: .4rem .7rem; font-weight: bold; }
ul { padding: 0; margin: .8rem 0; list-style: none; } .advice li { margin: .3rem 0; }
.verdict { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: .6rem; }
.verdict li { border: 1px solid var(--faint); border-left: 5px solid; border-radius: 4px; padding: .4rem .7rem; }
.verdict b { display: block; font-size: 1.15rem; overflow-wrap: anywhere; }
.good { border-left-color: var(--good) !important; } .look { border-left-color: var(--look) !important; }
.bad { border-left-color: var(--bad) !important; }
.good .level { color: var(--good); } .look .level { color: var(--look); } .bad .level { color: var(--bad); }
.level { font-weight: bold; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .5rem 0; }
dt { font-weight: bold; } dd { margin: 0; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; max-width: 52rem; display: block; font: 12px system-ui, "DejaVu Sans", sans-serif; }
@media (max-width: 34rem) { svg { font-size: 17px; } }
svg text { fill: var(--ink); } svg .value { fill: var(--quiet); }
svg .marked { fill: var(--bad); font-weight: bold; }
svg .axis { fill: var(--quiet); pointer-events: none; }
svg .row { fill: transparent; } svg g:hover .row { fill: var(--faint); }
.asleep { fill: var(--asleep); color: var(--asleep); } .awake { fill: var(--awake); color: var(--awake); }
.rest { fill: var(--rest); color: var(--faint); } .waiting { fill: var(--waiting); color: var(--waiting); }
.power { fill: var(--power); } .transfer { fill: var(--transfer); color: var(--transfer); }
table { border-collapse: collapse; width: 100%; } .wide { overflow-x: auto; }
th, td { text-align: right; padding: .15rem .6rem; border-bottom: 1px solid var(--faint); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; } th { color: var(--quiet); font-weight: normal; }
@media print { :root { color-scheme: light; --paper: #fff; --ink: #000; --quiet: #444; --faint: #ccc; --rest: #eee;
  --asleep: #2878b5; --awake: #f0a43a; --waiting: #8a6fa8; --transfer: #b9c2c9; --power: #3b8f6a;
  --good: #2f7d4f; --look: #9a6400; --bad: #b3352f; }
  body { max-width: none; padding: 0; font-size: 10pt; -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  h2 { break-after: avoid; } svg, li, tr { break-inside: avoid; } @page { margin: 15mm; } }
"""


def document(title: str, parts: Iterable[str]) -> str:
    """title: plain text. parts: markup, "" for none."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text_of(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "".join(part for part in parts if part) + "\n</body></html>\n"
    )


def page_path(text: str) -> str:
    if re.search(r"\.html?$", text, re.I) is None:
        raise argparse.ArgumentTypeError(f"'{safe(text)}' does not end in .html")
    return text


def write_page(path: str, text: str) -> None:
    """Refusal where the file cannot be written."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Refusal(f"'{safe(path, 200)}' cannot be written: {error.strerror}") from None
