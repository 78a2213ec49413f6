"""Runs the commands of contrib/TUTORIAL.md, checks what each must show, and writes their output anew with

    python3 -m tests.lib.tutorial

A command stands in a block of its own, after a dollar, and its output below it. A comment after the block names words
that the output has on every machine. Jobs have the numbers of a new cluster.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.lib import jobs
from tests.lib.throwaway import Cluster, project_cluster_arguments
from tests.lib.waiting import wait_for

PAGE = jobs.REPOSITORY / "contrib/TUTORIAL.md"
BLOCK = re.compile(r"```console\n\$ (?P<command>.*)\n(?P<output>(?:.*\n)*?)```\n<!-- shows: (?P<shows>.*) -->\n")
OF_JOBS = ("mpi-wait ", "sacct ", "scancel ")
JOB, BRIEF = "unbalanced 30 20 3", "unbalanced 30 2 3"
PATH = "/usr/bin:/bin:/opt/mpi-wait/bin:/opt/mpi-wait-tests"


@dataclass
class Example:
    command: str
    output: str
    shows: list[str]


def examples(text: str) -> list[Example]:
    return [Example(match["command"], match["output"], match["shows"].split(" | ")) for match in BLOCK.finditer(text)]


@dataclass
class Follower:
    """Runs the page's commands, one after the other. brief: the page's job computes a tenth as long. numbers: the real
    id by the page's number of a job. bare: page numbers of jobs under "off", which leave no record."""

    cluster: Cluster
    brief: bool = False
    numbers: dict[str, str] = field(default_factory=dict)
    bare: set[str] = field(default_factory=set)

    def _here(self, command: str) -> str:
        def number(match: re.Match[str]) -> str:
            return self.numbers.get(match[0], match[0])
        if self.brief:
            command = command.replace(JOB, BRIEF)
        return re.sub(r"(?<=\s)[1-9](?=\s|$)", number, command) if command.startswith(OF_JOBS) else command

    def _prepare(self, command: str) -> None:
        """Waits for the records of the named jobs: a reader takes longer than a test."""
        named = [self.numbers[word] for word in command.split() if word in self.numbers and word not in self.bare]
        if command.startswith("mpi-wait report ") and "--watch" not in command:
            for job in named:
                self.cluster.wait_job(job)
                wait_for(lambda job=job: jobs.comment(self.cluster, job) or jobs.flush(self.cluster), timeout_s=60)

    def _run(self, command: str) -> tuple[int, str]:
        done = self.cluster.run(["bash", "-c", self._here(command)], env={"PATH": PATH, "LC_ALL": "C.UTF-8"},
                                timeout=240)
        return done.returncode, done.stdout + done.stderr

    def follow(self, command: str) -> tuple[int, str]:
        """Runs a command; returns its exit status and all that it printed."""
        if not command.startswith(("srun", "sbatch")) or "=help" in command:
            self._prepare(command)
            if "--watch" in command:
                return 0, wait_for(lambda: self._seen(command), "a rank that waits")
            return self._run(command)
        before = self._known()
        status, text = self._run(command)
        number, = self._known() - before
        name = str(len(self.numbers) + 1)
        self.numbers[name] = number
        self.bare |= {name} if "policy=off" in command else set()
        return status, text

    def _seen(self, command: str) -> str:
        """Runs the command; returns its output if a rank waits in it, "" otherwise."""
        _, text = self._run(command)
        return text if "waits least" in text else ""

    def _known(self) -> set[str]:
        return set(re.findall(r"^JobId=(\d+) ", self.cluster.run(["scontrol", "-o", "show", "job"]).stdout, re.M))


def _tidy(text: str) -> str:
    return "".join(line.rstrip() + "\n" for line in text.rstrip().splitlines())


def rewritten(text: str, outputs: Iterator[str]) -> str:
    def anew(match: re.Match[str]) -> str:
        output = _tidy(next(outputs))
        return f"```console\n$ {match['command']}\n{output}```\n<!-- shows: {match['shows']} -->\n"
    return BLOCK.sub(anew, text)


def main() -> int:
    text = PAGE.read_text()
    with Cluster(nodes=2, **project_cluster_arguments()) as cluster:
        follower, outputs = Follower(cluster), []
        for example in examples(text):
            status, output = follower.follow(example.command)
            print(f"$ {example.command}\n{output}", flush=True)
            if status:
                return 1
            outputs.append(output)
    PAGE.write_text(rewritten(text, iter(outputs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
