"""The shipped policies: strict JSON that keeps the schema's rules, and chains that end."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

POLICIES = pathlib.Path(__file__).resolve().parents[3] / "policies"
SCHEMA = json.loads((POLICIES / "policy.schema.json").read_text())
FILES = sorted(path for path in POLICIES.glob("*.json") if path.name != "policy.schema.json")
SHIPPED = {"off", "profile", "yield", "nap", "umwait", "mwaitx", "event", "pstate", "auto"}

NAP: dict[str, Any] = json.loads((POLICIES / "nap.json").read_text())
PSTATE: dict[str, Any] = json.loads((POLICIES / "pstate.json").read_text())


def load(path: pathlib.Path) -> dict[str, Any]:
    def no_duplicates(pairs: list[Any]) -> dict[str, Any]:
        assert len({key for key, _ in pairs}) == len(pairs), f"{path.name}: a key twice"
        return dict(pairs)

    return json.loads(path.read_text(encoding="ascii"), object_pairs_hook=no_duplicates)


def check(policy: dict[str, Any]) -> None:
    jsonschema.Draft7Validator(SCHEMA).validate(policy)


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_the_promised_policies_are_shipped() -> None:
    assert {path.stem for path in FILES} == SHIPPED


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_policy_keeps_the_rules(path: pathlib.Path) -> None:
    policy = load(path)
    check(policy)
    assert policy["name"] == path.stem
    assert len(policy["summary"].encode()) <= 95
    assert set(policy.get("needs", [])) <= set(policy["rungs"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_chain_exists_and_ends(path: pathlib.Path) -> None:
    policies = {file.stem: load(file) for file in FILES}

    def follow(name: str, seen: tuple) -> Iterator[str]:
        assert name in policies, f"{' -> '.join(seen)} leads to '{name}', which does not exist"
        assert name not in seen, f"a cycle: {' -> '.join(seen)} -> {name}"
        yield name
        nexts = policies[name].get("choose", []) + [policies[name].get("fallback")]
        for following in filter(None, nexts):
            yield from follow(following, seen + (name,))

    names = list(follow(path.stem, ()))
    assert names[0] == path.stem
    assert path.stem == "off" or "off" not in names, (
        "who asked for a policy is never left unmeasured"
    )


def test_the_budgets_are_the_published_ones() -> None:
    nap, umwait = load(POLICIES / "nap.json")["budget"], load(POLICIES / "umwait.json")["budget"]
    assert nap == {"spin_us": 20, "relative": 1 / 16, "absolute_us": 0, "max_us": 100, "rma_us": 10}
    assert umwait == {
        "spin_us": 10,
        "relative": 1 / 64,
        "absolute_us": 1,
        "max_us": 40,
        "rma_us": 10,
    }
    assert load(POLICIES / "mwaitx.json")["budget"] == umwait
    assert load(POLICIES / "off.json")["inject"] is False
    assert load(POLICIES / "profile.json")["rungs"] == []
    assert {name for name in SHIPPED if "slowdown_percent" in load(POLICIES / f"{name}.json")} == {"nap", "auto"}
    assert load(POLICIES / "nap.json")["slowdown_percent"] == load(POLICIES / "auto.json")["slowdown_percent"] == 1
    assert load(POLICIES / "auto.json")["budget"] == nap


BROKEN = {
    "unknown key": {**NAP, "colour": "blue"},
    "unknown budget key": {**NAP, "budget": {**NAP["budget"], "spin_ns": 1}},
    "another version": {**NAP, "version": 2},
    "a rung that does not exist": {**NAP, "rungs": ["doze"]},
    "a rung twice": {**NAP, "rungs": ["nap", "nap"]},
    "relative above 1": {**NAP, "budget": {**NAP["budget"], "relative": 6.25}},
    "negative time": {**NAP, "budget": {**NAP["budget"], "spin_us": -1}},
    "more than a tenth of a second": {**NAP, "budget": {**NAP["budget"], "max_us": 100001}},
    "name with a path": {**NAP, "name": "../nap"},
    "name too long": {**NAP, "name": "n" * 32},
    "summary too long": {**NAP, "summary": "s" * 96},
    "summary with an escape": {**NAP, "summary": "red \x1b[31m"},
    "rungs and choose": {**NAP, "choose": ["umwait"]},
    "rungs without a budget": {key: value for key, value in NAP.items() if key != "budget"},
    "rungs without injection": {**NAP, "inject": False},
    "pstate_after_us below a millisecond": {**PSTATE, "pstate_after_us": 999},
    "pstate_after_us without pstate": {**NAP, "pstate_after_us": 5000},
    "polls as a word": {**NAP, "polls": "on"},
    "polls without rungs": {**{key: value for key, value in NAP.items() if key != "budget"}, "rungs": [], "needs": [],
                            "polls": True},
    "threads of another word": {**NAP, "threads": "active"},
    "inject as a number": {**NAP, "inject": 1},
}


@pytest.mark.parametrize("policy", BROKEN.values(), ids=BROKEN.keys())
def test_the_schema_refuses(policy: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        check(policy)


def schema_keys() -> Iterator[str]:
    yield from SCHEMA["properties"]
    yield from SCHEMA["properties"]["budget"]["properties"]
    yield from SCHEMA["definitions"]["rungs"]["items"]["enum"]


def test_the_prose_has_every_key_rung_and_policy() -> None:
    prose = (POLICIES / "README.md").read_text()
    missing = {key for key in schema_keys() if f"`{key}`" not in prose}
    missing |= {name for name in SHIPPED if f"| `{name}` |" not in prose}
    assert not missing


def test_the_example_in_the_prose_is_valid() -> None:
    examples = re.findall(r"```json\n(.*?)```", (POLICIES / "README.md").read_text(), re.S)
    assert examples
    for example in examples:
        check(json.loads(example))
