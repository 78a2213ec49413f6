"""The commands that the README gives to administrators, and a host on which they are typed as they stand."""

from __future__ import annotations

import re

from tests.lib.site.chroot import ROOT, Site


def administrators_commands() -> list[list[str]]:
    """The console blocks of the README's section on installing, by block: building, installing, removing."""
    section = (ROOT / "README.md").read_text().split("\n## Install\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", section, re.S)
    return [[line.removeprefix("# ") for line in block.splitlines()] for block in blocks]


def run_as_written(site: Site, commands: list[str], folder: str = "/root") -> None:
    """Each in the folder, with the questions of apt answered."""
    for command in commands:
        network = command.startswith("apt-get ")
        asked = command.replace("apt-get ", "apt-get -q -y ")
        site.run(f"cd {folder} && {asked}", network=network, timeout=1500)
