"""How sacct's output is cut into rows, whatever its cells hold."""

from __future__ import annotations

import pytest
from mpi_wait_tools.jobs import sacct
from mpi_wait_tools.jobs.sacct import cut_rows, new_delimiter

DELIMITER = new_delimiter()
CELLS = 5


class Read(str):
    """Text that counts how many of its characters are looked at; so does what it is appended to."""

    characters = 0

    def count(self, *words: object) -> int:  # type: ignore[override]
        Read.characters += len(self)
        return str.count(self, *words)  # type: ignore[arg-type]

    def split(self, *words: object, **named: object) -> list[str]:  # type: ignore[override]
        Read.characters += len(self)
        return str.split(self, *words, **named)  # type: ignore[arg-type]

    def rstrip(self, *words: object) -> Read:  # type: ignore[override]
        return Read(str.rstrip(self, *words))  # type: ignore[arg-type]

    def __radd__(self, before: str) -> Read:
        return Read(str.__add__(before, self))

    def __add__(self, after: str) -> Read:
        return Read(str.__add__(self, after))


def row(text: str, number: str = "17") -> str:
    return DELIMITER.join(["1", "ada", "x", text, number]) + "\n"


def lines(*rows: str) -> list[str]:
    return [Read(line) for line in "".join(rows).splitlines(True)]


@pytest.mark.parametrize("piece", ["\n", "a\n", "\r\n\x0b\x0c\x1c\x85", "\x1f\n"])
def test_a_row_of_many_lines_is_read_once(piece: str) -> None:
    text = piece * 500
    given = lines(row(text), row("other"))
    Read.characters = 0
    got = list(cut_rows(given, CELLS, DELIMITER))
    assert [len(one) for one in got] == [CELLS, CELLS] and got[0][3] == text and got[1][3] == "other"
    assert Read.characters <= 4 * sum(map(len, given))


def test_what_never_becomes_a_row_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row before it is there, and each piece of as many bytes as a row may have counts as one that is none."""
    monkeypatch.setattr(sacct, "ROW_BYTES_MAX", 1000)
    got = list(cut_rows(lines(row("good"), ("x" * 99 + "\n") * 21), CELLS, DELIMITER))
    assert got[0][3] == "good" and got[1:] == [[], []]


def test_rows_that_are_none() -> None:
    cut = list(cut_rows(lines(row("a", "no number"), row("b"), f"x{DELIMITER}y\n"), CELLS, DELIMITER))
    assert cut == [[], ["1", "ada", "x", "b", "17"], []]
