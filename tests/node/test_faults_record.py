"""Without memory, or with a disk that fails, at any call between a job's begin and its record in the outbox."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lib.domains import Done, Node, nodes
from tests.lib.faults import walk

JOB = 7
ROOT = "/run/mpi-wait"
OUTBOX = "/run/out"
BEGIN = ("begin", ROOT, JOB, 2, 2, "test", "c1", "nap", 0, "0-1")
STEP = ("step", ROOT, JOB, 0, 30, 1)
FINISH = ("finish", ROOT, JOB, OUTBOX, "")
Play = Callable[..., Done]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    make = nodes()
    node = next(make)(driver="acpi-cpufreq")
    done = node.run("mount", "-t", "tmpfs", "none", "/var/spool")
    assert done.returncode == 0, done.stderr
    yield node
    next(make, None)


def driver(node: Node, *words: object, more: dict[str, str] | None = None) -> Done:
    done = node.run(walk.RECORD_DRIVER, *words, more=more)
    assert done.returncode >= 0, done
    return done


def clean(node: Node) -> None:
    assert node.run("sh", "-c", f"rm -rf {ROOT} {OUTBOX} /var/spool/mpi-wait").returncode == 0


def shape(value: Any) -> Any:
    """What a record consists of, whatever its numbers are."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else value


def records(node: Node, outbox: str = OUTBOX) -> list[Any]:
    """All that bears a final name in the outbox; each must be what a merge takes."""
    found = []
    for path in sorted(node.path(outbox).glob("*.json")) if node.path(outbox).exists() else []:
        record = json.loads(path.read_text())
        merged = json.loads(driver(node, "merge", 1, "", f"{outbox}/{path.name}").stdout)
        assert "mpi_wait" in merged, f"{merged} of {record}"
        found.append(record)
    return found


KNOWN_LOSSES = ("energy", "energy_why", "throttle", "saving", "steps", "steps_left_out")
"""What may be missing, if it is said: a counter that could not be read, a step whose file could not."""


BY_TIME = "power_mw"
"""How many values it has, and whether any, is a matter of how long it all took on a busy machine."""


def is_honest(record: Any, wanted: Any) -> bool:
    have, want = shape(record), shape(wanted)
    for each in (have, want):
        each.pop(BY_TIME, None)
    if have.keys() != want.keys() or any(have[key] != want[key] for key in want if key not in KNOWN_LOSSES):
        return False
    said = record["energy_why"] if record["energy"] is None else record["energy"]["dropped"]
    energy = have["energy"] == want["energy"] or said
    steps = have["steps"] == want["steps"] or record["steps_left_out"] or without_energy(have) == without_energy(want)
    return bool(energy and steps)


def without_energy(record: Any) -> Any:
    return [{key: value for key, value in step.items() if key not in ("energy", "saving")} for step in record["steps"]]


def whole(node: Node) -> Any:
    """The record of a job in which nothing fails."""
    clean(node)
    for words in (BEGIN, STEP, FINISH):
        driver(node, *words)
    (record,) = records(node)
    assert record["energy"] and record["steps"]
    return record


@pytest.mark.parametrize("plan", walk.PLANS, ids=lambda plan: plan.name)
@pytest.mark.parametrize("words", [BEGIN, STEP, FINISH], ids=["begin", "step", "finish"])
def test_a_call_fails(node: Node, tmp_path: Path, words: tuple[object, ...], plan: walk.Plan) -> None:
    """What comes after it goes on with what there is."""
    wanted = whole(node)

    def trial(environment: dict[str, str]) -> None:
        clean(node)
        failed = {}
        for each in (BEGIN, STEP, FINISH):
            done = driver(node, *each, more=environment if each is words else None)
            failed[each[0]] = done.returncode != 0 or json.loads(done.stdout or '{"code": 1}').get("code")
            if each is words:
                records(node)
        if words is FINISH and not records(node):
            assert failed["finish"], "no record, and nothing said"
            driver(node, *FINISH)
        found = records(node)
        assert found or failed["begin"], "no record"
        for record in found:
            if words is STEP and not record["steps"]:  # its sampler did not come up, and has logged it
                record["steps"] = wanted["steps"]
            assert is_honest(record, wanted), record

    walk.walk(f"a record's {words[0]}", plan, tmp_path, trial)
