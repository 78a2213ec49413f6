"""What Slurm says of itself, each question asked once and with a time limit."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

from .host import Host, Ran

CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/etc/slurm-llnl/slurm.conf")


@dataclass(frozen=True)
class Slurm:
    """
    there: whether there are Slurm's commands here; release: theirs, "" if they did not say. settings: slurmctld's, by
    lower-case key; empty where it did not answer, and problem says why. configuration: slurm.conf's path, "" if it was
    not found. nodes: how many the cluster has, 0 if that is not known.
    """

    there: bool = False
    release: str = ""
    problem: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    configuration: str = ""
    nodes: int = 0

    @property
    def cluster(self) -> str:
        return self.settings.get("clustername", "")

    @property
    def plugstack(self) -> str:
        """Where plugstack.conf is: what Slurm says, or beside slurm.conf; "" if neither is known."""
        named = self.settings.get("plugstackconfig", "")
        if named.startswith("/"):
            return named
        return os.path.join(os.path.dirname(self.configuration), "plugstack.conf") if self.configuration else ""

    def flags(self, key: str) -> set[str]:
        return {word.lower() for word in re.split("[, ]+", self.settings.get(key, "")) if word}


def parse_settings(text: str, separator: str) -> dict[str, str]:
    """ "Key = value" lines; "(null)" is no value."""
    settings = {}
    for line in text.split("\n"):
        key, found, value = line.partition(separator)
        if found and re.fullmatch(r"[A-Za-z_]+", key.strip()):
            settings[key.strip().lower()] = "" if value.strip() in ("(null)", "N/A") else value.strip()
    return settings


def parse_release(text: str) -> str:
    """ "slurm-wlm 22.05.8" is "22.05.8"."""
    match = re.search(r"[0-9]+\.[0-9]+(\.[0-9]+)?", text)
    return match.group() if match else ""


def major(release: str) -> list[int]:
    """What two releases of Slurm must share to be of one: "22.05.8" is [22, 5]."""
    return [int(part) for part in re.findall("[0-9]{1,4}", release)[:2]]


def release_of(number: str) -> str:
    """ "22.05.8" of "0x160508", SLURM_VERSION_NUMBER as an ELF note has it; "": it is no such number."""
    if not re.fullmatch("0x[0-9a-fA-F]{1,8}", number):
        return ""
    value = int(number, 16)
    return f"{value >> 16 & 255:02d}.{value >> 8 & 255:02d}.{value & 255}"


def _configuration(host: Host, settings: dict[str, str]) -> str:
    candidates = [settings.get("slurm_conf", ""), os.environ.get("SLURM_CONF", ""), *CONFIGURATIONS]
    return next((path for path in candidates if path and host.status(path) is not None), "")


def _from_file(host: Host, configuration: str) -> dict[str, str]:
    """Of slurm.conf, what is needed to find the rest where slurmctld does not answer."""
    try:
        text = host.text(configuration) if configuration else None
    except PermissionError:
        text = None
    plain = "\n".join(line.split("#", 1)[0] for line in (text or "").split("\n"))
    return {key: value for key, value in parse_settings(plain, "=").items() if key == "plugstackconfig"}


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
