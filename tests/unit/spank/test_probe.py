"""mpi-wait-node probe, under sanitizers: what it makes of the site's words and of the host."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import NO_POWERCAP, PROGRAMS, settings

POLICIES = Path(__file__).resolve().parents[3] / "policies"


def probe(*words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(PROGRAMS["mpi-wait-node"]), "probe", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        env=settings("n7", NO_POWERCAP),
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done


def answer(*words: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(probe(*words).stdout)
    return result


def test_the_shipped_policies_and_what_becomes_of_them() -> None:
    said = answer("--", f"policies={POLICIES}", "default=nap", "allow=auto")
    policies = {policy["name"]: policy for policy in said["policies"]}
    assert set(policies) == {path.stem for path in POLICIES.glob("*.json") if "." not in path.stem}
    assert said["node"] == "n7" and said["left_out"] == ""
    assert policies["nap"] == {**policies["nap"], "used": "nap", "why": "", "allowed": True}
    assert policies["auto"]["allowed"] and not policies["yield"]["allowed"]
    lacks = said["rungs"]["umwait"]
    assert policies["umwait"]["used"] == ("nap" if lacks else "umwait") and policies["umwait"]["why"] == lacks
    assert said["rungs"]["nap"] == ""


def test_the_first_file_that_was_refused_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"version": 9}')
    said = answer(f"policies={tmp_path}")
    assert said["policies"] == []
    assert said["left_out"] == f"policy '{tmp_path}/bad.json' left out: 'version' is not 1"


def test_policies_by_program_are_judged(tmp_path: Path) -> None:
    file = tmp_path / "programs.json"
    words = (f"policies={POLICIES}", f"programs={file}")
    rows = [{"names": ["wrf.exe", "vasp_*"], "policy": "nap,slowdown=2"}, {"names": ["lmp*"], "policy": "off"}]
    file.write_text(json.dumps({"v": 1, "programs": rows}))
    assert answer(*words)["programs"] == {"why": "", "names": 3} and answer(words[0])["programs"] is None
    rows[1]["policy"] = "doze"
    file.write_text(json.dumps({"v": 1, "programs": rows}))
    assert answer(*words)["programs"]["why"] == f"programs '{file}' left out: policy 'doze' is unknown"
    file.write_text("[]")
    assert answer(*words)["programs"]["why"] == f"programs '{file}' left out: the file is not a JSON object"


def test_the_shipped_example_is_good() -> None:
    said = answer(f"policies={POLICIES}", f"programs={POLICIES}/programs.json.example")
    assert said["programs"] == {"why": "", "names": 4}


def test_energy_says_why_it_is_not_known() -> None:
    why = "not root" if os.geteuid() else "no powercap zones"
    said = answer()["energy"]
    assert isinstance(said.pop("gpus"), bool) and said == {"source": "rapl", "why": why, "zones": []}


@pytest.mark.parametrize(
    "words,message",
    [
        (["--", "--partial"], "'--partial' (no such argument)"),
        (["--", "--state", "/x"], "'--state' (no such argument), '/x' (no such argument)"),
        (["--", "--"], "'--' (no such argument)"),
        (["x" * 5000], "x" * 100),
        ([f"w{number}=1" for number in range(200)], "'w0=1' (no such argument), 'w1=1'"),
    ],
)
def test_words_that_are_no_site_arguments(words: list[str], message: str) -> None:
    assert message in probe(*words, status=64).stderr


def test_before_the_dashes_options_are_options() -> None:
    assert probe("--partial", "default=nap").stderr == ""
