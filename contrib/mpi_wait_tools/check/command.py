"""mpi-wait check: tells people, or with --json programs, if this host is fit for the plugin. Changes nothing."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from ..site.host import Host
from ..site.slurm import ask_slurm
from ..text.output import add_output_arguments, output_is_utf8, output_width, wants_colour
from ..text.units import plural, safe
from .finding import CheckView, Finding, Section, Status, not_seen
from .host import check_energy, check_frequency, check_kernel, check_meters, check_waiting
from .plugin import Installation, check_plugin, check_policies
from .records import check_records
from .slurm import check_cores, check_slurm
from .tariff import check_tariff

SUMMARY = "whether this host is fit for wait policies, what is wrong with it, and what to do; changes nothing"
EXIT_FAIL = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_output_arguments(parser, "the findings as JSON")


def _guarded(check: Callable[[], list[Finding]]) -> list[Finding]:
    """Returns the findings of one group of checks. An OSError becomes a finding NOT SEEN: other groups still run."""
    try:
        return check()
    except OSError as error:
        name = safe(str(error.filename or ""), 200)
        return [not_seen("the rest", f"'{name}': {error.strerror}", "run 'mpi-wait check' as root")]


def sections(host: Host) -> list[Section]:
    """Runs all checks; returns their sections in the order in which they are shown."""
    slurm = ask_slurm(host)
    installation = Installation()

    def plugin() -> list[Finding]:
        nonlocal installation
        installation = check_plugin(host, slurm)
        return installation.findings

    found_plugin = Section("Plugin", _guarded(plugin))
    site, probe = installation.site, installation.probe
    node = str((probe or {}).get("node") or host.name.split(".")[0])
    return [
        Section("Waiting", _guarded(lambda: check_waiting(host) + check_kernel(host))),
        Section("Frequency", _guarded(lambda: check_frequency(host))),
        Section("Energy", _guarded(
            lambda: check_energy(host, probe) + check_meters(host, installation.helper, probe, site or {})
            + check_tariff(host))),
        Section("Slurm", _guarded(lambda: check_slurm(host, slurm, site or {}, node) + check_cores(host, slurm, node))),
        found_plugin,
        Section("Policies", _guarded(lambda: check_policies(host, probe, site or {}))),
        Section("Records", _guarded(lambda: check_records(host, slurm, site, node, installation.helper))),
    ]


def verdict(found: list[Section]) -> str:
    counts = dict.fromkeys(Status, 0)
    for section in found:
        for finding in section.findings:
            counts[finding.status] += 1
    well = "no failure" if counts[Status.WARN] or counts[Status.NOT_SEEN] else "nothing is wrong"
    parts = [
        f"{plural(counts[Status.FAIL], 'failure')}" if counts[Status.FAIL] else well,
        plural(counts[Status.WARN], "warning") if counts[Status.WARN] else "",
        f"{counts[Status.NOT_SEEN]} not seen" if counts[Status.NOT_SEEN] else "",
    ]
    return (", ".join(part for part in parts if part) + ".").capitalize()


def as_json(host: Host, found: list[Section]) -> dict[str, Any]:
    return {
        "version": 1,
        "host": host.name,
        "root": host.is_root,
        "simulated": host.simulated,
        "findings": [
            {
                "section": section.title,
                "name": finding.name,
                "status": finding.status.value,
                "what": finding.what,
                "means": finding.means,
                "do": finding.do,
            }
            for section in found
            for finding in section.findings
        ],
    }


def run(arguments: argparse.Namespace) -> int:
    host = Host()
    found = sections(host)
    if arguments.json:
        print(json.dumps(as_json(host, found), indent=2))
    else:
        who = "root" if host.is_root else "a user (root sees more)"
        title = f"{safe(host.name)}, seen by {who}" + (", a simulated node" if host.simulated else "")
        view = CheckView(output_width(arguments), wants_colour(arguments), output_is_utf8())
        sys.stdout.write(view.text(title, found, verdict(found)))
    failed = any(finding.status is Status.FAIL for section in found for finding in section.findings)
    return EXIT_FAIL if failed else 0
