#!/usr/bin/python3
"""Writes the wrappers of one prefix, as C: make_wrappers.py MPI|PMPI

A function of mpi_calls.def becomes up to three in C, which jump to one another: one of its own name for most calls,
NAME_timed for calls under profile whose size is simple, and NAME_long for all others. Their text is in wrapper.c.in,
their common code in wrap.h.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from string import Template

ROW = re.compile(
    r'^CALL\((\w+), (\d+), (WAIT|TIME|MARK), (NEWER_|)(LARGE|PLAIN|VARIADIC), (\w+), "(.*)", (\w+)\)$', re.M)
WIDTH = 120
HERE = Path(__file__).resolve().parent
TEMPLATE, TABLE = HERE / "wrapper.c.in", HERE.parent / "contract/mpi_calls.def"
BEFORE = HERE / "prewait.h", HERE.parent / "wait/presleep.h"  # name the rows before which a loop or a sleep is possible
HEAD = """\
/*
 * The wrappers of all functions {}_X and {}_X_c, made by make_wrappers.py. Their invariant stands in wrap.h.
 */
#include "preload/wrap/wrap.h"
"""


def head(start: str, count: int) -> str:
    """Returns a function's head, with line breaks where clang-format has them."""
    words = ", ".join(f"word~a{index}" for index in range(count)) or "void"
    return textwrap.fill(f"{words})", WIDTH, initial_indent=f"{start}(",
                         subsequent_indent=" " * (len(start) + 1)).replace("~", " ")


def traits_of(kind: str, group: str, signature: str, volume: str) -> dict[str, bool]:
    simple = (volume == "FIRST" and signature.count("t") == 1 and "n" in signature and signature.count("p") < 2
              and not set("NTR") & set(signature))
    marks, starts, sized, asks = kind == "MARK", group == "INIT", volume != "NONE", "v" in signature
    followed = marks and (sized or asks)
    nests = marks and group == "IO"  # ROMIO, which is a layer on top of MPI
    return {"blocks": not marks, "marks": marks, "waits": kind == "WAIT", "starts": starts, "calls": not starts,
            "sized": sized, "timed": not starts and (simple or not sized) and not nests,
            "brief": marks and not nests, "asks": asks, "followed": followed,
            "placed": sized and group == "P2P" and "p" in signature, "last": marks and not followed}


def kept(template: str, traits: set[str]) -> Iterator[str]:
    """Yields the lines of the template for a function with these traits."""
    for part in template.split("\n@@")[1:]:
        needed, *lines = part.splitlines()
        for line, _, more in (line.partition("  @ ") for line in lines):
            if traits.issuperset(f"{needed} {more}".split()):
                yield line


def wrapper(template: str, symbol: str, name: str, row: tuple[str, ...], is_before: bool) -> str:
    called, count, kind, later, _, group, signature, volume = row
    holds = {**traits_of(kind, group, signature, volume), "later": bool(later), "before": is_before,
             "direct": not is_before}
    given = {letter: f"a{signature.index(letter)}" if letter in signature else "0" for letter in "cptnv"}
    own, large = f"later_{symbol}" if later else symbol, name.endswith("LARGE")
    words = {
        "symbol": symbol, "own": own, "row": f"ROW_{called}", "name": name, "count": count,
        "arguments": ", ".join(f"a{index}" for index in range(int(count))),
        "own_head": head(f"int {own}", int(count)),
        **{f"{way}_head": head(f"static int {own}_{way}", int(count)) for way in ("timed", "long")},
        "entry": f"ROW_{called}, CALL_{kind}, {'true' if group == 'RMA_LOCK' else 'false'}, HERE",
        "comm": given["c"], "peer": given["p"], "type": given["t"], "counted": given["n"], "flag": given["v"],
        "receiver": given["p" if "p" in signature else "n"], "count_type": "int64_t" if large else "int",
        "locality": "locality" if holds["placed"] else "MPIWAIT_NOWHERE", "asks": "asks" if holds["asks"] else "false",
        "large": "true" if large else "false",
        "hides": "outer.frame != FORWARD_NONE" if holds["brief"] else "true",
    }
    text = "\n".join(kept(template, {trait for trait, held in holds.items() if held}))
    return Template(text).substitute(words)


def wrappers(prefix: str) -> Iterator[str]:
    template = TEMPLATE.read_text()
    before = {row for header in BEFORE for row in re.findall(r"\bROW_(\w+)", header.read_text())}
    for row in ROW.findall(TABLE.read_text()):
        if row[4] != "VARIADIC":
            yield wrapper(template, f"{prefix}_{row[0]}", f"NAME_{prefix}", row, row[0] in before)
        if row[4] == "LARGE":
            newer = (*row[:3], "NEWER_", *row[4:])
            yield wrapper(template, f"{prefix}_{row[0]}_c", f"NAME_{prefix}_LARGE", newer, row[0] in before)


if __name__ == "__main__":
    print(HEAD.format(sys.argv[1], sys.argv[1]), end="")
    print(*wrappers(sys.argv[1]), sep="\n")
