"""The list of mutants, mutants.toml, read strictly."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.toml")
C_TEST = "meson:"
PRODUCT = ("spank/", "preload/", "contrib/")


class Refusal(Exception):
    """What is wrong with the list, in a sentence."""


@dataclass(frozen=True)
class Mutant:
    """One line of one source, changed; the test that has to fail then; and what that would mean for a user."""

    name: str
    file: str
    old: str
    new: str
    test: str
    why: str
    stage: str = ""  # the part of the product that works no more at all, where the mutant leaves one out

    def applied(self, text: str) -> str:
        """The source with the change."""
        if (count := text.count(self.old)) != 1:
            raise Refusal(f"{self.name}: '{self.old}' is in {self.file} {count} times, not once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Catalogue:
    targets: dict[str, list[str]]  # by file of tests: what ninja makes for them
    mutants: list[Mutant]

    def targets_of(self, mutant: Mutant) -> tuple[str, ...]:
        """For pytest's tests; a C test knows its own."""
        return tuple(self.targets.get(mutant.test.partition("::")[0], ()))


def check(mutant: Mutant, catalogue: Catalogue) -> None:
    if "\n" in mutant.old + mutant.new or mutant.old == mutant.new:
        raise Refusal(f"{mutant.name}: one line is changed, and it is changed")
    if not mutant.file.startswith(PRODUCT):
        raise Refusal(f"{mutant.name}: '{mutant.file}' is not in {', '.join(PRODUCT)}")
    mutant.applied((ROOT / mutant.file).read_text())
    if not mutant.test.startswith(C_TEST):
        path, _, test = mutant.test.partition("::")
        if not test or not (ROOT / path).exists():
            raise Refusal(f"{mutant.name}: '{mutant.test}' is no test (PATH::TEST, or {C_TEST}NAME)")
        if path not in catalogue.targets:
            raise Refusal(f"{mutant.name}: {LIST.name} does not say what '{path}' needs: [targets]")


def read() -> Catalogue:
    content = tomllib.loads(LIST.read_text())
    try:
        catalogue = Catalogue(content["targets"], [Mutant(**row) for row in content["mutant"]])
    except TypeError as error:
        raise Refusal(f"{LIST.name}: {error}") from error
    names = [mutant.name for mutant in catalogue.mutants]
    if twice := {name for name in names if names.count(name) > 1}:
        raise Refusal(f"{LIST.name}: twice: {', '.join(sorted(twice))}")
    for mutant in catalogue.mutants:
        check(mutant, catalogue)
    return catalogue
