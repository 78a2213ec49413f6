"""Which lines no test reached, function by function, and why: tests/COVERAGE.md, from gcovr and reasons.txt."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
REASONS = Path(__file__).with_name("reasons.txt")
LIST = ROOT / "tests/COVERAGE.md"
DECLARATION = re.compile(r"(?!return|goto)\w[\w\s*]* [\w\s*,+\[\]]+;")
"""Of an array: under AddressSanitizer that is code, which other builds of the same line lack."""
LEADS = ("if", "else", "case", "for", "while", "default", "switch")
HEAD = """# What no test reaches

Written by `tests/run --coverage`; the reasons stand in
[soak/coverage/reasons.txt](soak/coverage/reasons.txt). Counted are the C unit tests and the tests of pytest that run
built objects, but for load and other people's programs (`WITHOUT` in [soak/coverage/run](soak/coverage/run)): in
ranks, slurmstepd, `mpi-wait-node` and the tests' own drivers. A process that ends by
`_exit`, `exec` or SIGKILL loses what it counted: what a task's child does before `exec` is seen in the unit tests' host
only, and whoever is killed at a point of its work is not seen at all.
"""


@dataclass
class Block:
    """Lines of one function that follow each other, none of which was run."""

    file: str
    function: str
    before: str
    lines: list[str]

    def text(self) -> str:
        return " ".join(filter(None, [self.before, *self.lines]))

    def start(self) -> str:
        """What leads there and what comes first: a reason is one for that, not for whatever else follows."""
        return " ".join(filter(None, [self.before, *self.lines[:2]]))


@dataclass
class Reason:
    place: str
    pattern: re.Pattern[str]
    why: str

    def covers(self, block: Block) -> bool:
        return fnmatch(f"{block.file}:{block.function}", self.place) and bool(self.pattern.search(block.start()))

    def is_for(self, file: str) -> bool:
        return fnmatch(file, self.place.rpartition(":")[0])


class WholeFile(ValueError):
    """A reason for all that a file has."""


def reason_of(line: str) -> Reason:
    place, pattern, why = (part.strip() for part in line.split(" | "))
    if place.endswith(":*") and re.search(pattern, "any line"):
        raise WholeFile(f"'{line}': what is not run has reasons of its own, line by line")
    return Reason(place, re.compile(pattern), why)


def reasons_read() -> list[Reason]:
    """Of each line PLACE | PATTERN | WHY; the first that fits a block counts."""
    return [reason_of(line) for line in REASONS.read_text().splitlines() if line and not line.startswith("#")]


def counted(builds: list[Path]) -> dict[str, Any]:
    target = builds[0] / "coverage.json"
    subprocess.run(["gcovr", "--root", ROOT, "--filter", "spank/", "--filter", "preload/", "-j", "2", "--txt", "-",
                    "--gcov-ignore-parse-errors", "--json", target, "--print-summary", *builds], cwd=ROOT, check=True,
                   stderr=subprocess.DEVNULL)
    document: dict[str, Any] = json.loads(target.read_text())
    return document


def functions(file: dict[str, Any]) -> list[tuple[int, str]]:
    return sorted({(function["lineno"], function["name"]) for function in file.get("functions", [])})


def function_at(known: list[tuple[int, str]], number: int) -> str:
    return next((name for start, name in reversed(known) if start <= number), "-")


def blocks(file: dict[str, Any]) -> Iterator[Block]:
    source = (ROOT / file["file"]).read_text().splitlines()
    known, lines = functions(file), sorted(file["lines"], key=lambda line: int(line["line_number"]))
    block: Block | None = None
    for line in lines:
        number, text = line["line_number"], source[line["line_number"] - 1].strip()
        function = function_at(known, number)
        if line["count"] or line.get("gcovr/noncode"):
            block = None
        elif text in ("{", "}") or (number, function) in known or DECLARATION.fullmatch(text):
            continue
        elif block is None or block.function != function:
            block = Block(file["file"], function, source[number - 2].strip(), [text])
            yield block
        else:
            block.lines.append(text)


def shares(files: list[dict[str, Any]]) -> str:
    """A sentence: how much of each folder was run."""
    parts = []
    for folder in ("spank", "preload"):
        counts = [line["count"] for file in files if file["file"].startswith(f"{folder}/") for line in file["lines"]
                  if not line.get("gcovr/noncode")]
        ran = sum(count > 0 for count in counts)
        parts.append(f"of {folder}/ {100 * ran / max(len(counts), 1):.1f} % of {len(counts)} lines")
    return f"Run were {', '.join(parts)}."


def tree_name() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    changed = " and changes beside it" if git("status", "--porcelain", "spank", "preload", "tests") else ""
    return f"Of {time.strftime('%Y-%m-%d')}, commit {git('rev-parse', '--short=10', 'HEAD') or 'unknown'}{changed}.\n"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")


def list_text(head: str, found: list[Block], reasons: list[Reason]) -> str:
    text, file = head, ""
    for block in found:
        if block.file != file:
            file = block.file
            text += f"\n## {file}\n\n| function | not run | why |\n|---|---|---|\n"
        why = next((reason.why for reason in reasons if reason.covers(block)), "")
        more = f" and {len(block.lines) - 1} more" if len(block.lines) > 1 else ""
        before = f"{block.before} → " if block.before.startswith(LEADS) else ""
        text += f"| {block.function} | `{cell((before + block.lines[0])[:100])}`{more} | {why or '**none yet**'} |\n"
    return text


def show(*builds: Path) -> None:
    """Prints gcovr's table and what has no reason, and writes the list."""
    document = counted(list(builds))
    files = sorted(document["files"], key=lambda file: str(file["file"]))
    found = [block for file in files if file["file"].endswith((".c", ".h")) for block in blocks(file)]
    reasons = reasons_read()
    remark = builds[0] / "remark"
    sentences = tree_name() + shares(files) + "\n" + (remark.read_text() if remark.exists() else "")
    LIST.write_text(list_text(HEAD + "\n" + sentences, found, reasons))
    unexplained = [block for block in found if not any(reason.covers(block) for reason in reasons)]
    print("\n" + sentences)
    print(f"{len(found)} places were not reached ({LIST.relative_to(ROOT)}); {len(unexplained)} have no reason:")
    for block in unexplained:
        print(f"  {block.file}:{block.function}: {block.text()[:150]}")
    idle = [reason for reason in reasons if not any(reason.covers(block) for block in found)]
    print(f"{len(idle)} reasons are for nothing any more:")
    for reason in idle:
        print(f"  {reason.place} | {reason.pattern.pattern}")
