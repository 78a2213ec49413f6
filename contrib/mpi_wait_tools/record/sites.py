"""A record's call sites: the waits by where the program called MPI from. Checked like all of the record."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .ends import RankWait, rank_wait
from .profiled import CALL
from .reader import Reader

MODULE = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]{0,46}")
_BUILD_ID = re.compile(r"([0-9a-f]{2}){1,20}")
_OFFSET = re.compile(r"0x[0-9a-f]{1,16}")


@dataclass(frozen=True)
class Site:
    """module is "" for all others together; offset is that of the instruction behind the call."""

    module: str
    build_id: str  # "" where the file has none
    offset: int
    call: str
    waits: int
    seconds: float  # summed over ranks
    most: RankWait | None

    @property
    def place(self) -> str:
        return f"{self.module}+{self.offset:#x}" if self.module else "other"


def site_of(value: Any, where: str) -> Site:
    reader = Reader(value, where)
    figures, most = reader.figures("site"), reader.maybe_object("max")
    is_named = "module" in reader.value
    return Site(
        module=reader.text("module", MODULE) if is_named else "",
        build_id=reader.text("build_id", _BUILD_ID) if "build_id" in reader.value else "",
        offset=int(reader.text("offset", _OFFSET), 16) if is_named else 0,
        call=reader.text("call", CALL),
        waits=figures["waits"],
        seconds=figures["wait_s"],
        most=rank_wait(most) if most else None,
    )
