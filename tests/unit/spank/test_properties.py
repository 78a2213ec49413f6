"""What users and sites write: understood and written down again it is the same; refused, it is said why."""

from __future__ import annotations

import copy
import errno
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as some

from tests.lib.properties import PROPERTY, Readers

REPOSITORY = Path(__file__).resolve().parents[3]
POLICIES = REPOSITORY / "policies"
SCHEMA = jsonschema.Draft7Validator(json.loads((POLICIES / "policy.schema.json").read_text()))
SHIPPED = [json.loads(path.read_text()) for path in sorted(POLICIES.glob("*.json")) if "." not in path.stem]
READERS = Readers()

names = some.from_regex(r"[a-z][a-z0-9_-]{0,30}", fullmatch=True)
directories = some.text([chr(code) for code in range(32, 127) if chr(code) not in ",'\"\\"], min_size=1, max_size=60)
OPTIONS = (REPOSITORY / "spank/policy/options.h").read_text()
RANGE = re.findall(r"#define OPTIONS_SLOWDOWN_(?:LEAST|MOST) +([0-9.]+)", OPTIONS)


# What is mapped has a name: hypothesis reads the source of a lambda at each call.
def percent_of(ppm: int) -> str:
    return f"{ppm // 10000}.{ppm % 10000:04}"


percents = some.integers(*(round(float(percent) * 10_000) for percent in RANGE)).map(percent_of)


@some.composite
def options(draw: some.DrawFn) -> dict[str, str]:
    """As keys of an option, in any order."""
    every = {"slowdown": draw(percents), "pin": draw(some.sampled_from(["cores", "none"])), "profile": "", "sites": "",
             "collectives": "ibarrier",
             "polls": draw(some.sampled_from(["on", "off"])),
             "threads": draw(some.sampled_from(["keep", "bounded", "passive"])), "csv": draw(directories)}
    chosen = draw(some.lists(some.sampled_from(sorted(every)), unique=True))
    return {"name": draw(names), **{key: every[key] for key in chosen}}


def written(values: dict[str, str]) -> str:
    words = [key + (f"={value}" if value else "") for key, value in values.items() if key != "name"]
    return ",".join([values["name"], *words])


def data_of(values: dict[str, str]) -> bytes:
    return written(values).encode()


def understood(text: str) -> dict[str, str]:
    name, *words = text.split(",")
    return {"name": name, **{word.partition("=")[0]: word.partition("=")[2] for word in words}}


@PROPERTY
@given(options())
def test_an_option_is_understood_as_it_was_written(values: dict[str, str]) -> None:
    expected = {**values, "profile": ""} if "csv" in values else values
    code, text = READERS.option(written(values).encode())
    assert (code, understood(text)) == (0, expected)
    assert READERS.option(text.encode()) == (0, text)


@PROPERTY
@given(some.one_of(some.binary(max_size=300), options().map(data_of),
                   some.lists(some.sampled_from([b"nap", b"csv", b"pin", b"slowdown", b"=", b",", b"100", b"%", b"1e",
                                                 b"cores", b"\xff", b"x" * 300]), max_size=12).map(b"".join)))
def test_whatever_is_given_as_option_is_understood_or_refused_in_a_line(data: bytes) -> None:
    data = data.partition(b"\0")[0]
    code, text = READERS.option(data)
    assert code in (0, -errno.EINVAL) and text
    assert code == 0 or (text.isascii() and text.isprintable())
    assert code or READERS.option(text.encode("utf-8", "surrogateescape"))[0] == 0


anything = some.recursive(
    some.one_of(some.none(), some.booleans(), some.integers(-10, 2_000_000), some.floats(allow_nan=False), names,
                some.sampled_from(["pause", "nap", "umwait", "pstate", "p"])),
    lambda inner: some.one_of(some.lists(inner, max_size=4), some.dictionaries(names, inner, max_size=4)), max_leaves=6)


@some.composite
def policies(draw: some.DrawFn) -> Any:
    """A shipped one, called "p", of which some values are others, more or gone."""
    policy = copy.deepcopy(draw(some.sampled_from(SHIPPED))) | {"name": "p"}
    for _ in range(draw(some.integers(0, 2))):
        budget = policy.get("budget")
        place = draw(some.sampled_from([policy, budget] if isinstance(budget, dict) else [policy]))
        key = draw(some.one_of(some.sampled_from(sorted(place) or ["x"]), names))
        if draw(some.booleans()):
            place[key] = draw(anything)
        else:
            place.pop(key, None)
    return policy


def json_of(value: Any) -> bytes:
    return json.dumps(value).encode()


def cut_in_two(cut: tuple[bytes, int, bytes]) -> bytes:
    """With something else in the place at which it was cut."""
    data, place, between = cut
    return data[:place] + between + data[place:]


def keeps_the_rules(policy: dict[str, Any]) -> bool:
    """The schema's, and what it cannot say: the name is the file's, and what is needed is among what is done."""
    if not SCHEMA.is_valid(policy) or policy["name"] != "p":
        return False
    return set(policy.get("needs", [])) <= set(policy["rungs"])


@PROPERTY
@given(policies())
def test_a_policy_is_loaded_if_it_keeps_the_rules_and_refused_if_not(policy: Any) -> None:
    code, text = READERS.policy(json.dumps(policy).encode(), "p")
    assert (code == 0) == keeps_the_rules(policy), text
    assert text.startswith("v=1;rungs=") if code == 0 else text.isprintable() and text


@PROPERTY
@given(some.one_of(some.binary(max_size=200), anything.map(json_of),
                   some.tuples(policies().map(json_of), some.integers(0, 300),
                               some.binary(max_size=4)).map(cut_in_two)))
def test_whatever_stands_in_a_policys_file_is_loaded_or_refused(data: bytes) -> None:
    code, text = READERS.policy(data, "p")
    assert code in (0, -errno.EINVAL) and text
