"""The report's input, mutated: whatever stands in the accounting field, the reader refuses it in one line or shows it,
and what it prints holds no character that a terminal obeys."""

from __future__ import annotations

import copy
import gc
import json
import math
import random
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "contrib"))

from mpi_wait_tools.record.record import find_body, parse_record  # noqa: E402
from mpi_wait_tools.report.view import Output, Shown, show  # noqa: E402
from mpi_wait_tools.text.output import Refusal  # noqa: E402

SHOWN_ONE_IN = 20
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**53, 10**18, 10**19, 10**30, 0.5, -0.0, 1e-9, 1e12, 1e300, "", "x" * 300,
    "off", "share", "node", "simulated", "MPI_Recv", "other", "\x1b[2J", "a\nb", "\u202e", "\ud800", "é", "\x00",
    "[red]x[/red]", "%s{}", {}, [], [[]], [0.0] * 200, {"": 0}, {"mpi_wait": {}},
]


@dataclass
class Problem:
    text: str
    trace: str


def containers(tree: Any) -> list[Any]:
    """The tree's lists and objects, the list of them growing while it is walked."""
    found = [tree]
    for value in found:
        children = value.values() if isinstance(value, dict) else value
        found += [child for child in children if isinstance(child, (dict, list))]
    return found


def tree_mutate(tree: Any, chance: random.Random) -> None:
    everything = containers(tree)
    place, other = chance.choice(everything), chance.choice(everything)
    keys = list(place) if isinstance(place, dict) else list(range(len(place)))
    if not keys:
        return
    key, action = chance.choice(keys), chance.randrange(5)
    if action == 0:
        del place[key]
    elif action == 1 and isinstance(place, list):
        place[:] = place * chance.choice((0, 2, 3, 50))
    elif action == 2:
        place[key] = copy.deepcopy(other) if len(str(other)) < 2000 else {}
    elif action == 3 and isinstance(place, dict):
        place[chance.choice(["MPI_Xy", "1024", "0", "-1", "é", "unseen", "dropped"])] = copy.deepcopy(place[key])
    else:
        place[key] = copy.deepcopy(chance.choice(VALUES))


def bytes_mutate(text: str, chance: random.Random) -> str:
    at, length = chance.randrange(len(text) + 1), chance.choice((0, 1, 1, 4, 30))
    piece = chance.choice(["", "{", "}", "[", '"', "\\", ",", ":", "NaN", "-", "1" * 5000, "[" * 3000, '{"mpi_wait"',
                           "\\u0000", "\\ud800", "\n", text[:at], "\x7f", "1e999", "JS1:"])
    return text[:at] + piece + text[at + length:]


def mutated(seeds: list[str], chance: random.Random) -> str:
    text = chance.choice(seeds)
    if chance.random() < 0.8:
        tree = json.loads(text)
        for _ in range(chance.choice((1, 1, 2, 4))):
            tree_mutate(tree, chance)
        text = json.dumps(tree, separators=(",", ":"), ensure_ascii=chance.random() < 0.9)
    if chance.random() < 0.3:
        text = bytes_mutate(text, chance)
    return text


def printable(text: str) -> bool:
    return text.replace("\n", "").isprintable()


def report(text: str, chance: random.Random) -> str:
    """As mpi-wait report does it: the record, then (of some, for it is slow) the view."""
    body = find_body(text)
    record = parse_record(body) if body is not None else None
    if record is None or chance.randrange(SHOWN_ONE_IN):
        return ""
    step = chance.choice([None, *record.steps[:3]])
    output = Output(chance.choice((40, 80, 200)), False, chance.random() < 0.5)
    return show(output, Shown(None, "AdminComment", record, step, chance.random() < 0.1))


def one(text: str, chance: random.Random) -> None:
    text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    try:
        shown = report(text, chance)
    except Refusal as refusal:
        assert printable(str(refusal)) and "\n" not in str(refusal) and len(str(refusal)) < 1000, "the refusal"
        return
    assert printable(shown), "what is shown"
    shown.encode("utf-8")


def play(seconds: float, corpus: Path, most: float = math.inf, seed: int | None = None) -> tuple[int, Problem | None]:
    """Returns how many inputs were tried, and the first that the reader could not stand."""
    gc.freeze()
    gc.set_threshold(50_000)
    chance = random.Random(seed)
    texts = [path.read_text(errors="surrogateescape") for path in sorted(corpus.iterdir())]
    seeds = [text for text in texts if is_record(text)]
    end, tried = time.monotonic() + seconds, 0
    while tried < most and time.monotonic() < end:
        text = texts[tried] if tried < len(texts) else mutated(seeds, chance)
        tried += 1
        try:
            one(text, chance)
        except Exception:
            kept = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
            return tried, Problem(kept, traceback.format_exc())
    return tried, None


def is_record(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
