"""The shape of a simulated /sys: directories, links and files whose text is made when read.

This module knows neither FUSE nor the meaning of the files.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

Node = "Directory | Link | File"


@dataclass
class File:
    """An attribute. `read` returns the text without the newline. `write` gets the stripped text, and raises OSError
    where the kernel would refuse it."""

    read: Callable[[], object]
    write: Callable[[str], None] | None = None
    mode: int = 0
    uid: int = 0
    gid: int = 0
    give: Callable[[], None] | None = None
    """Called before the owner changes; raises OSError where the kernel would refuse that."""
    can_go = False

    def __post_init__(self) -> None:
        self.mode = self.mode or (0o644 if self.write else 0o444)


@dataclass
class Link:
    target: str
    can_go: bool = False
    """The name may be gone at the next lookup."""


@dataclass
class Directory:
    entries: dict[str, Directory | Link | File] = field(default_factory=dict)
    mode: int = 0o755
    uid: int = 0
    gid: int = 0
    can_go: bool = False

    def directory(self, path: str) -> Directory:
        """Returns the directory at a relative path, made if it is missing."""
        node = self
        for name in path.split("/"):
            child = node.entries.setdefault(name, Directory())
            if not isinstance(child, Directory):
                raise NotADirectoryError(name)
            node = child
        return node


def constant(value: object, mode: int = 0o444) -> File:
    return File(lambda: value, mode=mode)


def parse_number(text: str) -> int:
    """Parses a number as the kernel's kstrtoul does for sysfs: EINVAL unless it is a plain number."""
    if not text.isascii() or not text.isdigit():
        raise OSError(errno.EINVAL, f"not a number: '{text}'")
    return int(text)


def variable(holder: dict[str, int], key: str, mode: int = 0o644) -> File:
    """Returns a file that shows a number in a dictionary and, if it may be written, sets it."""
    def write(text: str) -> None:
        holder[key] = parse_number(text)
    return File(lambda: holder[key], write if mode & 0o222 else None, mode)
