"""Made-up sites: some hundred jobs of several programs and users, as sacct's rows. Their true costs and savings are
known.

Each job's figures differ from its program's by its user, by the job itself and by the noise of the measurement; a few
jobs were disturbed. Everything follows from a seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.lib.doubles.report_double import make_record, make_row

BY_USER, BY_JOB = (0.1, 0.5), (0.15, 0.8)
"""Standard deviations of the true cost and of the true saving, in percent: between users, and between jobs of one."""
DISTURBED = 0.03


@dataclass(frozen=True)
class Made:
    """A made-up program. right is the verdict that its truth deserves."""

    name: str
    right: str
    cost: float = 0.0
    saved: float = 0.0
    policy: str = "nap"
    users: tuple[int, int] = (4, 8)
    jobs: tuple[int, int] = (4, 15)  # least and most jobs of one user
    share: float = 0.2  # share of the ranks' time that they wait


def _programs(rng: random.Random) -> list[Made]:
    return [
        Made("gains", "nap", rng.uniform(0, 0.4), rng.uniform(5, 15)),
        Made("gains_by_event", "event", rng.uniform(0, 0.4), rng.uniform(5, 12), policy="event"),
        Made("costs", "off", rng.uniform(2, 4), rng.uniform(1, 6)),
        Made("wastes", "off", rng.uniform(0.2, 0.5), rng.uniform(-4, -2)),
        Made("neutral", "off", rng.uniform(0, 0.2), 0.0, jobs=(8, 20)),
        Made("few_runs", "try", rng.uniform(0, 0.4), rng.uniform(5, 15), users=(1, 2), jobs=(1, 2)),
        Made("of_one_user", "try", rng.uniform(0, 0.4), rng.uniform(5, 15), users=(1, 1), jobs=(40, 60)),
        Made("only_profiled", "try", policy="profile", share=rng.uniform(0.1, 0.4)),
        Made("hardly_waits", "off", policy="profile", share=0.004, users=(4, 6)),
    ]


def record_of(policy: str, share: float, cost: tuple[float, float, int] | None,
              saved: tuple[float, float] | None) -> dict[str, Any]:
    """Returns a job's record. cost: percent, its error and the number of looks; saved: percent and its error."""
    record = make_record()
    body = record["mpi_wait"]
    for place in (body["policy"], body["steps"][0]["policy"]):
        place.update(asked=policy, used=policy, why="")
    body["wait"]["share"] = share
    body["energy"]["source"] = "rapl"
    if cost is not None:
        percent, error, windows = cost
        body["wait"]["cost"] = {"percent": percent, "error": error, "windows": windows, "seconds": 900.0,
                                "slowdown": 1.0}
    if saved is not None:
        percent, error = saved
        body["energy"]["saved"] = {"percent": percent, "error": error, "looks": 80, "look_w": 200.0, "beside_w": 190.0}
    return record


def row_of(job: int, user: str, program: str, record: dict[str, Any] | str) -> dict[str, str]:
    text = record if isinstance(record, str) else json.dumps(record)
    return make_row(text, JobID=str(job), JobIDRaw=str(job), User=user, JobName=program, Account="a", Partition="p")


def _record(rng: random.Random, made: Made, cost: float, saved: float) -> dict[str, Any]:
    """Returns the record of one job of a user whose true figures are these."""
    share = max(0.0, rng.gauss(made.share, 0.1 * made.share))
    if made.policy == "profile":
        return record_of("profile", share, None, None)
    cost_error, saved_error = rng.uniform(0.2, 1.2), rng.uniform(0.8, 4.0)
    disturbed = rng.uniform(3, 8) if rng.random() < DISTURBED else 0.0
    measured = rng.gauss(rng.gauss(cost, BY_JOB[0]), cost_error / 1.96) + disturbed
    windows = 5 if rng.random() < 0.05 else 400
    gain = rng.gauss(rng.gauss(saved, BY_JOB[1]), saved_error / 1.96)
    return record_of(made.policy, share, (measured, cost_error, windows),
                     None if rng.random() < 0.2 else (gain, saved_error))


def _rows(rng: random.Random, made: Made, first: int) -> Iterator[dict[str, str]]:
    for user in range(rng.randint(*made.users)):
        cost, saved = rng.gauss(made.cost, BY_USER[0]), rng.gauss(made.saved, BY_USER[1])
        for _ in range(rng.randint(*made.jobs)):
            yield row_of(first, f"user{user}", made.name, _record(rng, made, cost, saved))
            first += 1


@dataclass(frozen=True)
class Site:
    rows: list[dict[str, str]]
    right: dict[str, str]  # by program, the verdict that its truth deserves


def make_site(seed: int) -> Site:
    rng = random.Random(seed)
    programs = _programs(rng)
    rows: list[dict[str, str]] = []
    for made in programs:
        rows += _rows(rng, made, 1000 + len(rows))
    return Site(rows, {made.name: made.right for made in programs})


def shaded(site: Site, shift: float, user: str = "mallory") -> list[dict[str, str]]:
    """Returns records that one user forged with care: near enough to the truth not to be left out, and beyond the
    limits. shift: by how many percent points the cost is wrong; the saving is wrong by twice as many."""
    rows: list[dict[str, str]] = []
    for name, right in site.right.items():
        of_off, of_on = (1 - shift, 1 + 2 * shift, "nap"), (0.3 + shift, 8 - 2 * shift, right)
        cost, saved, policy = of_off if right == "off" else of_on
        record = record_of(policy, 0.1, (cost, 0.1, 10**6), (saved, 0.2))
        rows += [row_of(600_000 + len(rows) + job, user, name, record) for job in range(30) if right != "try"]
    return rows


def forged(site: Site, jobs: int, user: str = "mallory") -> list[dict[str, str]]:
    """Returns records that one user forged for each program of a site, so that they say the contrary of the truth with
    the narrowest intervals."""
    rows: list[dict[str, str]] = []
    for name, right in site.right.items():
        cost, saved, policy = (60.0, -90.0, right) if right not in ("off", "try") else (-60.0, 90.0, "nap")
        record = record_of(policy, 0.9, (cost, 0.0, 10**9), (saved, 0.0))
        rows += [row_of(500_000 + len(rows) + job, user, name, record) for job in range(jobs)]
    return rows
