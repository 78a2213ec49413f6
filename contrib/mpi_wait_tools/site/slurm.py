"""Asks Slurm about itself, each question once and under a time limit, and reads plugstack.conf as Slurm does."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass, field

from .host import Host, Ran

CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/etc/slurm-llnl/slurm.conf")


@dataclass(frozen=True)
class Slurm:
    """The answers of this host's Slurm."""

    there: bool = False  # this host has Slurm's commands
    release: str = ""  # release of the commands, "" if they did not say
    problem: str = ""  # why slurmctld did not answer, "" if it did
    settings: dict[str, str] = field(default_factory=dict)  # slurmctld's, by lower-case key; few if it did not answer
    configuration: str = ""  # path of slurm.conf, "" if it was not found
    nodes: int = 0  # number of nodes in the cluster, 0 if not known

    @property
    def cluster(self) -> str:
        return self.settings.get("clustername", "")

    @property
    def plugstack(self) -> str:
        """The path of plugstack.conf, as Slurm says it, or else beside slurm.conf; "" if neither is known."""
        named = self.settings.get("plugstackconfig", "")
        if named.startswith("/"):
            return named
        return os.path.join(os.path.dirname(self.configuration), "plugstack.conf") if self.configuration else ""

    def flags(self, key: str) -> set[str]:
        return {word.lower() for word in re.split("[, ]+", self.settings.get(key, "")) if word}


def parse_settings(text: str, separator: str) -> dict[str, str]:
    """Parses lines "Key = value" with that separator. Keys become lower case; "(null)" and "N/A" become ""."""
    settings = {}
    for line in text.split("\n"):
        key, found, value = line.partition(separator)
        if found and re.fullmatch(r"[A-Za-z_]+", key.strip()):
            settings[key.strip().lower()] = "" if value.strip() in ("(null)", "N/A") else value.strip()
    return settings


def parse_release(text: str) -> str:
    """Returns "22.05.8" for "slurm-wlm 22.05.8"; "" if there is no release in text."""
    match = re.search(r"[0-9]+\.[0-9]+(\.[0-9]+)?", text)
    return match.group() if match else ""


def major(release: str) -> list[int]:
    """Returns the numbers that two compatible releases of Slurm share: [22, 5] for "22.05.8"."""
    return [int(part) for part in re.findall("[0-9]{1,4}", release)[:2]]


def release_of(number: str) -> str:
    """Returns "22.05.8" for "0x160508", the SLURM_VERSION_NUMBER in an ELF note; "" if it is no such number."""
    if not re.fullmatch("0x[0-9a-fA-F]{1,8}", number):
        return ""
    value = int(number, 16)
    return f"{value >> 16 & 255:02d}.{value >> 8 & 255:02d}.{value & 255}"


def _configuration(host: Host, settings: dict[str, str]) -> str:
    candidates = [settings.get("slurm_conf", ""), os.environ.get("SLURM_CONF", ""), *CONFIGURATIONS]
    return next((path for path in candidates if path and host.status(path) is not None), "")


def _from_file(host: Host, configuration: str) -> dict[str, str]:
    """Reads from slurm.conf the settings that are needed if slurmctld does not answer: PlugStackConfig."""
    try:
        text = host.text(configuration) if configuration else None
    except PermissionError:
        text = None
    plain = "\n".join(line.split("#", 1)[0] for line in (text or "").split("\n"))
    return {key: value for key, value in parse_settings(plain, "=").items() if key == "plugstackconfig"}


def plugstack_of(host: Host, configuration: str) -> str:
    """Returns the path of plugstack.conf: the one that this slurm.conf names, or else the one beside it."""
    named = _from_file(host, configuration).get("plugstackconfig", "")
    return named if named.startswith("/") else os.path.join(os.path.dirname(configuration), "plugstack.conf")


def ask_slurm(host: Host) -> Slurm:
    version = host.run(["scontrol", "--version"])
    if version.missing:
        configuration = _configuration(host, {})
        return Slurm(False, "", version.problem, _from_file(host, configuration), configuration)
    asked: Ran = host.run(["scontrol", "show", "config"])
    release = parse_release(version.out)
    if not asked.done:
        configuration = _configuration(host, {})
        return Slurm(True, release, asked.problem, _from_file(host, configuration), configuration)
    settings = parse_settings(asked.out, "=")
    listed = host.run(["sinfo", "-h", "-a", "-N", "-o", "%N"])
    nodes = len(set(listed.out.split())) if listed.done else 0
    return Slurm(True, release, "", settings, _configuration(host, settings), nodes)


LINE_MAX = 4095  # bytes; Slurm takes the rest of a longer line for a new line
FILES_MAX = 64
KINDS = ("required", "optional", "include")
NAME = "spank_mpi_wait.so"


@dataclass(frozen=True)
class Line:
    file: str
    number: int
    kind: str
    path: str
    words: list[str]

    @property
    def place(self) -> str:
        return f"{self.file}:{self.number}"


@dataclass
class Plugstack:
    """plugstack.conf and the files that it includes."""

    lines: list[Line] = field(default_factory=list)  # our plugin's
    behind: list[Line] = field(default_factory=list)  # other plugins', after our first
    problems: list[tuple[str, str]] = field(default_factory=list)  # (place, description)
    files: list[str] = field(default_factory=list)  # all files that were read


RETURN = "ends with a carriage return, which Slurm takes for a part of its last word (sed -i 's/\\r$//' removes it)"


def parse_line(text: str) -> tuple[str, str, list[str]] | str | None:
    """Returns (kind, path, arguments) of a line, None if it is empty, or a string that says why it is invalid.

    Splits as Slurm does: at blanks and tabs, without quotes; a '#' or a zero byte ends the line.
    """
    words = re.split("[#\0]", text, maxsplit=1)[0].replace("\t", " ").replace("\n", " ").split(" ")
    words = [word for word in words if word]
    if not words:
        return None
    if words[0] not in KINDS:
        return f"begins with '{words[0]}' (accepted: {', '.join(KINDS)})"
    if len(words) < 2:
        return f"'{words[0]}' names no file"
    return words[0], words[1], words[2:]


def _included(host: Host, file: str, pattern: str) -> list[str]:
    if not pattern.startswith("/"):
        pattern = os.path.join(os.path.dirname(file), pattern)
    return sorted(path[len(host.root) :] for path in glob.glob(glob.escape(host.root) + pattern))


def _read_line(host: Host, found: Plugstack, files: tuple[str, ...], number: int, text: str) -> None:
    """Reads one line of the last of files. Each of files was included by the one before it."""
    file = files[-1]
    place = f"{file}:{number}"
    if len(text.encode("utf-8", "replace")) > LINE_MAX and NAME in text:
        found.problems.append((place, f"is longer than {LINE_MAX} bytes: Slurm cuts it there"))
    parsed = parse_line(text)
    has_return = text.split("#", 1)[0].endswith("\r")
    if has_return and isinstance(parsed, tuple) and (parsed[0] == "include" or NAME in parsed[1]):
        found.problems.append((place, RETURN))
    if isinstance(parsed, str):
        if NAME in text.split("#", 1)[0]:
            found.problems.append((place, parsed))
    elif parsed is not None and parsed[0] == "include":
        for included in _included(host, file, parsed[1]):
            _read_file(host, found, included, files)
    elif parsed is not None and os.path.basename(parsed[1]) == NAME:
        found.lines.append(Line(file, number, *parsed))
    elif parsed is not None and found.lines:
        found.behind.append(Line(file, number, *parsed))


def _read_file(host: Host, found: Plugstack, file: str, above: tuple[str, ...]) -> None:
    if file in above or len(found.files) >= FILES_MAX:
        found.problems.append((file, "is included by itself" if file in above else "is one of too many includes"))
        return
    found.files.append(file)
    try:
        text = host.text(file)
    except OSError as error:
        found.problems.append((file, f"cannot be read: {error.strerror}"))
        return
    for number, line in enumerate((text or "").split("\n"), 1):
        _read_line(host, found, (*above, file), number, line)


def read_plugstack(host: Host, file: str) -> Plugstack:
    """Reads plugstack.conf, at file, and the files that it includes."""
    found = Plugstack()
    _read_file(host, found, file, ())
    return found
