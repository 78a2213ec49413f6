"""The commands that the README gives to administrators, and a function that types them as they stand."""

from __future__ import annotations

import re

from tests.lib.site.chroot import ROOT, Site


def administrators_commands() -> list[list[str]]:
    """Returns the console blocks of the README's section on installing: building, installing, removing."""
    section = (ROOT / "README.md").read_text().split("\n## Install\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", section, re.S)
    return [[line.removeprefix("# ") for line in block.splitlines()] for block in blocks]


def run_as_written(site: Site, commands: list[str], folder: str = "/root") -> None:
    """Runs each command in the directory, and answers apt's questions."""
    for command in commands:
        network = command.startswith("apt-get ")
        asked = command.replace("apt-get ", "apt-get -q -y ")
        site.run(f"cd {folder} && {asked}", network=network, timeout=1500)
