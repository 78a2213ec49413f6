"""A record's profile: what every MPI function did, and how far messages went. Checked like all of the record."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .reader import SECONDS_MAX, Reader, damaged

CALL = re.compile(r"MPI_[A-Za-z_]{1,60}|other")
PROFILE_MAX = 1e26
_SIZE = re.compile(r"0|[1-9][0-9]{0,11}")


@dataclass(frozen=True)
class ProfiledCall:
    name: str
    calls: int
    time: float
    wait: float
    bytes: float
    sizes: dict[int, float]  # calls by the least number of bytes of their class


@dataclass(frozen=True)
class PointToPoint:
    """Bytes of point-to-point messages by where their other end was."""

    within: float
    between: float


def _sizes(reader: Reader | None) -> dict[int, float]:
    sizes: dict[int, float] = {}
    if reader is None:
        return sizes
    for key in reader.value:
        if not _SIZE.fullmatch(key):
            raise damaged(reader.where, "has a size that is no number of bytes")
        sizes[int(key)] = reader.number(key, PROFILE_MAX)
    return dict(sorted(sizes.items()))


def profiled_calls(reader: Reader | None) -> list[ProfiledCall]:
    calls: list[ProfiledCall] = []
    if reader is None:
        return calls
    for name in reader.value:
        if not CALL.fullmatch(name):
            raise damaged(reader.where, "names something that is no MPI function")
        call = reader.object(name)
        calls.append(
            ProfiledCall(
                name=name,
                calls=round(call.number("calls", PROFILE_MAX)),
                time=call.number("time_s", SECONDS_MAX),
                wait=call.number("wait_s", SECONDS_MAX),
                bytes=call.number("bytes", PROFILE_MAX),
                sizes=_sizes(call.maybe_object("sizes")),
            )
        )
    return sorted(calls, key=lambda call: (call.name == "other", -call.time, -call.bytes, call.name))


def point_to_point(reader: Reader | None) -> PointToPoint | None:
    if reader is None:
        return None
    within, between = (
        reader.number(key, PROFILE_MAX) for key in ("within_nodes_bytes", "between_nodes_bytes")
    )
    return PointToPoint(within, between) if within + between > 0 else None
