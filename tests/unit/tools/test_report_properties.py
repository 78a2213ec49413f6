"""Whatever an accounting field holds, the report refuses it in a line or shows it, as a terminal may have it."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from tests.lib.doubles.record_doubles import costly, many_steps, one_slow_node, profiled, sampled, spinning
from tests.lib.doubles.report_double import make_record
from tests.lib.properties import PROPERTY
from tests.unit.fuzz import reader

RECORDS = [make_record(), costly(), many_steps(), one_slow_node(), profiled(), sampled(), spinning()]

# With these, the reader also shows what it has read, in different ways.
chances = some.sampled_from([seed for seed in range(200) if random.Random(seed).randrange(reader.SHOWN_ONE_IN) == 0])
scalars = some.one_of(some.none(), some.booleans(), some.integers(), some.floats(), some.text(max_size=20))
anything = some.recursive(
    scalars, lambda inner: some.one_of(some.lists(inner, max_size=4), some.dictionaries(some.text(max_size=8), inner)),
    max_leaves=8)


@some.composite
def records(draw: some.DrawFn) -> str:
    """A good one, of which some values are others or gone."""
    record = copy.deepcopy(draw(some.sampled_from(RECORDS)))
    for _ in range(draw(some.integers(1, 3))):
        place: Any = draw(some.sampled_from(reader.containers(record)))
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if keys and draw(some.booleans()):
            place[draw(some.sampled_from(keys))] = draw(anything)
        elif keys:
            del place[draw(some.sampled_from(keys))]
    return json.dumps(record)


@PROPERTY
@given(records(), chances)
def test_a_record_that_was_changed(text: str, chance: int) -> None:
    reader.one(text, random.Random(chance))


# What is mapped has a name: hypothesis reads the source of a lambda at each call.
def decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def document(value: Any) -> str:
    return json.dumps({"mpi_wait": value})


def cut_short(cut: tuple[str, int, str]) -> str:
    text, place, end = cut
    return text[:place] + end


@PROPERTY
@given(some.one_of(some.text(), some.binary().map(decoded), anything.map(json.dumps), anything.map(document),
                   some.tuples(records(), some.integers(0, 4000), some.text(max_size=5)).map(cut_short)), chances)
def test_any_text(text: str, chance: int) -> None:
    """Also a record that was cut, as a field that is too short for it does."""
    reader.one(text, random.Random(chance))
