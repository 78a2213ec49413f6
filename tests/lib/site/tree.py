"""Makes root directories of Debian suites with mmdebstrap, from the package source that this machine uses, with this
machine's settings. A Release file may have expired."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

# The files that apt needs to fetch from there, copied from the machine.
FETCH = ("etc/apt/auth.conf.d", "etc/apt/keyrings", "etc/apt/trusted.gpg.d", "etc/ssl/certs/ca-certificates.crt")
COPY = f'for path in {" ".join(FETCH)}; do [ ! -e /$path ] || tar -C / -c $path | tar -C "$1" -x; done'
ACQUIRE = re.compile(r'^Acquire::(https?::|Retries).* ".+";$', re.M)
APT = ('Acquire::Check-Valid-Until "false"', 'Acquire::Check-Date "false"', 'APT::Install-Recommends "false"')


class Failed(Exception):
    """A command failed; the text is the end of its output."""


class NotOffered(Exception):
    """The machine's source of packages does not have the suite."""


def own_suite() -> str:
    found = re.search(r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.M)
    return found[1] if found else ""


def output(argv: Sequence[str]) -> str:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"'{argv[0]}' ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def sources(suite: str) -> list[str]:
    """Returns lines of sources.list: the machine's own, wherever apt has them from; for another suite, without its
    updates."""
    own = own_suite()
    shown = output(["apt-get", "indextargets", "--format", "deb $(REPO_URI) $(CODENAME) $(COMPONENT)",
                    "Created-By: Packages"])
    lines = sorted({line for line in shown.splitlines() if line.split()[2].partition("-")[0] == own})
    if suite != own:
        lines = [line.replace(f" {own} ", f" {suite} ") for line in lines if f" {own} " in line]
    if not lines:
        raise Failed(f"apt has no source for '{own}', this machine's own suite (run apt-get update)")
    return lines


def make_tree(target: Path, suite: str, packages: Sequence[str] = ()) -> None:
    """Makes a tree with the suite's apt, these packages and their dependencies. An interrupted run leaves no tree of
    that name."""
    making = target.with_name(f"{target.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    making.parent.mkdir(parents=True, exist_ok=True)
    fetch = [found[0].rstrip(";") for found in ACQUIRE.finditer(output(["apt-config", "dump"]))]
    options = [f"--aptopt={text}" for text in (*APT, *fetch)]
    options += [f"--include={name}" for name in packages]
    command = ["mmdebstrap", "--mode=root", "--variant=apt", *options, "--dpkgopt=force-unsafe-io",
               f"--customize-hook={COPY}", suite, str(making), *sources(suite)]
    try:
        output(command)
    except FileNotFoundError:
        raise Failed("no mmdebstrap: contrib/setup tests/packages/soak.txt installs it") from None
    except Failed as reason:
        if f" {suite} Release' does not have a Release file" in str(reason):
            raise NotOffered(f"the machine's source of packages has no suite '{suite}'") from None
        raise
    making.rename(target)
