"""Lists the targets that are not met, by how much, and why."""

from __future__ import annotations

from typing import Any

from tests.bench.targets import number, verdict

Kinds = tuple[tuple[str, str, str], ...]
"""part of the target's text, name, and reason"""

FORECASTS: Kinds = (
    (" late: CPU of the wait", "late partner, CPU",
     "The best possible knows the wait and the sleep beforehand. The rank learns both: its first waits are polled, and "
     "so are those in looks, a sixteenth of the time at first; no nap is longer than what the account has left; and "
     "before each end a margin is polled. A loss that the account does not allow ends all naps for a while, which may "
     "be most of a launch, and the figure is the mean of two launches."),
    (": median lateness", "late partner, median",
     "By a few µs: a core that was idle takes a message up later. By more: half of the waits or more ended in a nap, "
     "since too few were known."),
    (": 99th percentile of the lateness", "late partner, one in 100",
     "Of 12 waits of 100 ms and 80 of 5 ms that one is the worst. It came sooner than any that was known, and its nap "
     "was charged to the account; or the kernel ended a sleep later than in the measurement beside."),
    (": CPU time above the work", "unequal work, CPU",
     "The worst of nine cells counts, each of 0.2 to 0.6 s, in which both ranks have their waits to learn. Where the "
     "slow rank changes, each sees but a half or a third of the waits."),
    (": wall time above no library's, median", "unequal work, wall time, median",
     "The account allows 1 % of the run."),
    (": wall time above no library's, worst", "unequal work, wall time, worst cell",
     "A cell is compared with a run of its own without the library. Under the ladder the worst such pair differs by "
     "as much or nearly so: see the tables."),
    (": CPU of the wait", "waits by coin and by turns, CPU", "That waits have become longer shows only in a look."),
    (": delay, of the run", "all other waits, delay",
     "The account bounds what sleeping costs by what it has measured. What the kernel woke too late counts when it has "
     "happened, and less than all of it where the machine disturbs steps too."),
    (": time added to a call", "calls, time", "The wrapper's instructions are counted below the table of calls."),
    (": messages per second", "calls, messages",
     "The ladder has the same wrapper: its column shows by how much the rate varies."),
    (": 8 B one-way latency", "calls, latency",
     "A wait of less than a microsecond is polled 64 times before anything is done; what is added is the wrapper."),
)


APPLICATIONS: Kinds = (
    (": CPU time above the work", "CPU time above the work",
     "Each wait that a rank sleeps in costs a wake-up at least, and what is polled before it is known how long it will "
     "be, and beside a margin. Under \"at least\" stands what waits of 100 µs and more would take if each were one "
     "sleep that ends in time ([best.py](best.py)), shorter ones nothing."),
    (": wall time above that without", "wall time",
     "The account allows 1 % and 2 ms of the run, and measures what sleeping cost when it has happened. "
     "HPC Challenge measures small messages for much of its time, in which the wrapper shows: `profile`, which never "
     "sleeps, is as slow. CP2K with two threads a rank has four threads on two CPUs, which take turns 140 000 times "
     "each. A rank that gives its core away there waits longer, under `mpi_yield_when_idle` too, though its naps end "
     "as punctually as elsewhere. The plugin's default, `threads=bounded`, lets such threads sleep at once, which "
     "saves more than the naps cost."),
)


def kind_of(text: str, kinds: Kinds = FORECASTS) -> int | None:
    """Returns the index of the first kind that fits the text."""
    return next((place for place, (part, _, _) in enumerate(kinds) if part in text), None)


def excess(target: dict[str, Any]) -> float:
    """Returns how far the value is off, as a part of the limit: 1 is twice as much."""
    return abs(target["value"] - target["limit"]) / abs(target["limit"])


def lines(targets: list[dict[str, Any]], kinds: Kinds = FORECASTS) -> list[str]:
    """Returns a table of the kinds with targets that are not met; nothing if all are met."""
    rows = []
    for place, (_, title, reason) in enumerate(kinds):
        all_of = [target for target in targets if kind_of(target["text"], kinds) == place]
        missed = [target for target in all_of if verdict(target) == "not met"]
        if not missed:
            continue
        worst = max(missed, key=excess)
        where = worst["text"].split(":")[0]
        value = f"{number(worst['value'])} {worst['unit']}".strip()
        rows.append(f"| {title} | {len(missed)} of {len(all_of)} | {where}: {value}, wanted {number(worst['limit'])} | "
                    f"{reason} |")
    if not rows:
        return []
    return ["### What is not met, and why", "", "| | not met | the farthest | why |", "|---|---:|---|---|", *rows, ""]
