"""What sleeping cost a job, in words; and that of several jobs together. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..record.cost import Cost
from ..text.units import plural

TOO_LITTLE = "too little was seen to tell"


def _size_and_error(cost: Cost) -> tuple[float, str]:
    """The percent, rounded to what its interval is worth, and both without a sign: "0.3 % ± 0.1"."""
    decimals = 1 if cost.error >= 0.05 else 2
    size = round(cost.percent, decimals)
    return size, f"{abs(size):.{decimals}f} % ± {max(cost.error, 0.01):.{decimals}f}"


def cost_words(cost: Cost) -> str:
    """ "0.3 % ± 0.1", "−0.3 % ± 0.1"."""
    size, words = _size_and_error(cost)
    return f"−{words}" if size < 0 else words


def cost_line(cost: Cost) -> str:
    """What the report says, as the end of a sentence."""
    looks = plural(cost.windows, "look")
    if not cost.is_known:
        return f"{TOO_LITTLE} what sleeping cost ({looks})"
    size, words = _size_and_error(cost)
    how = "less time" if size < 0 else "longer"
    return f"steps slept in took {words} {how} than those looked at ({looks})"


def unknown_line() -> str:
    """The same for ranks that had an account, and no steps to compare."""
    return f"{TOO_LITTLE} what sleeping cost (no steps were compared)"


def too_much_line(cost: Cost) -> str:
    """ "" if it is not more than was allowed."""
    if not cost.is_too_much:
        return ""
    return (
        f"more than the {cost.slowdown:g} % allowed: while the account is spent the ranks do not sleep. Usual causes "
        "are other work on the nodes and a very short run"
    )


def cost_together(costs: Iterable[Cost]) -> Cost | None:
    """That of several jobs, by the time of each; their errors have nothing to do with one another."""
    known = [cost for cost in costs if cost.seconds > 0]
    seconds = sum(cost.seconds for cost in known)
    if not known:
        return None
    allowed = [cost.slowdown for cost in known if cost.slowdown is not None]
    return Cost(
        percent=sum(cost.percent * (cost.seconds / seconds) for cost in known),
        error=math.hypot(*(cost.error * (cost.seconds / seconds) for cost in known)),
        windows=sum(cost.windows for cost in known),
        seconds=seconds,
        slowdown=max(allowed) if allowed else None,
    )
