"""Translates call sites to functions and source lines, by addr2line and the files that the user names.

A file belongs to the record if their build-ids match. If the record has no build-id, the file's name decides, and the
report says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..record.wait import Site
from ..site.elf_note import read_build_id
from ..text.output import Refusal
from ..text.units import plural, safe

TOOL = "addr2line"
TOOL_TIME_S = 60.0
FILES_MAX = 4096
CALLSITE_MAX = 96


@dataclass(frozen=True)
class Lines:
    """The source lines of call sites."""

    places: dict[Site, str]
    remarks: list[str]  # sentences for the report about sites without a source line

    def place(self, site: Site) -> str:
        return self.places.get(site, site.place)


NO_LINES = Lines({}, [])


def _files(paths: Iterable[str]) -> list[str]:
    """Returns the files among paths, and the files in the directories among them. Raises Refusal if one is missing."""
    files: list[str] = []
    for path in paths:
        try:
            inside = sorted(os.listdir(path)) if os.path.isdir(path) else None
        except OSError as error:
            raise Refusal(f"--exe {safe(path, 200)}: {error.strerror}") from None
        if inside is None and not os.path.isfile(path):
            raise Refusal(f"--exe {safe(path, 200)}: no such file or directory")
        files += [path] if inside is None else [os.path.join(path, name) for name in inside]
    return [file for file in files[:FILES_MAX] if os.path.isfile(file)]


def _build_id(path: str) -> str | None:
    """Returns the build-id of a program or library; None if the file is neither, or cannot be read."""
    try:
        return read_build_id(path)
    except OSError:
        return None


def _resolved(path: str, sites: Sequence[Site]) -> dict[Site, str]:
    """Asks addr2line for the places of the sites. A site is a return address: the byte before it is of the call."""
    command = [TOOL, "-C", "-f", "-e", path, *(hex(site.offset - 1) for site in sites)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TOOL_TIME_S, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    told = done.stdout.decode("utf-8", "replace").splitlines()
    places = {}
    for site, function, line in zip(sites, told[::2], told[1::2]):
        source = os.path.basename(line.split(" (")[0])
        known = [part for part in (function, source) if not part.startswith("??")]
        if known:
            places[site] = safe(" ".join(known), CALLSITE_MAX)
    return places


def lines_of(sites: Sequence[Site], paths: Sequence[str]) -> Lines:
    """Returns the source lines of the sites. paths are the files or directories of --exe. Raises Refusal if one cannot
    be read."""
    files = _files(paths)
    if not sites or not paths:
        return NO_LINES
    if shutil.which(TOOL) is None:
        return Lines({}, [f"--exe: {TOOL} is missing (binutils), so that call sites stand as addresses."])
    ids = {file: _build_id(file) for file in files}
    places: dict[Site, str] = {}
    remarks: list[str] = []
    for name, build_id in dict.fromkeys((site.module, site.build_id) for site in sites if site.module):
        own = [site for site in sites if (site.module, site.build_id) == (name, build_id)]
        named = [file for file in files if os.path.basename(file) == name and ids[file] is not None]
        same = [file for file in files if ids[file] == build_id] if build_id else named
        if not same and named:
            remarks.append(f"{safe(named[0], 64)} is not the {name} that ran: its build-id is another one.")
        elif not same:
            remarks.append(f"--exe names no {name}: its {plural(len(own), 'call site')} stand as addresses.")
        elif not build_id:
            remarks.append(f"{name} has no build-id: that {safe(same[0], 64)} is what ran is not known.")
        found: dict[Site, str] = {}
        for file in same:  # several, if a separate file of debugging information has the same build-id
            found = found or _resolved(file, own)
        if same and not found:
            remarks.append(f"{safe(same[0], 64)} has neither symbols nor lines (-g) that {TOOL} can read.")
        places |= found
    return Lines(places, remarks)
