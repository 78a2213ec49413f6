"""A machine made of files, and doubles of Slurm's commands, so that mpi-wait check can be shown any state."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "contrib"), str(ROOT)]

from mpi_wait_tools import __version__  # noqa: E402  (the path above comes first)
from mpi_wait_tools.check import command as check  # noqa: E402
from mpi_wait_tools.check.finding import Finding  # noqa: E402
from mpi_wait_tools.site import files, host  # noqa: E402

from tests.lib.record_tools import BUILD  # noqa: E402

__all__ = ["Machine", "files", "host", "policy"]

PREFIX = "/opt/mpi-wait"
PLUGIN = f"{PREFIX}/lib/slurm/spank_mpi_wait.so"
LIBRARY = f"{PREFIX}/lib/mpi-wait/libmpiwait.so"
HELPER = f"{PREFIX}/sbin/mpi-wait-node"
SHIPPED = f"{PREFIX}/share/mpi-wait/policies"
PLUGSTACK = "/etc/slurm/plugstack.conf"
SPOOL = "/shared/spool"
OUTBOX = "/var/spool/mpi-wait/out"
CPUS = "/sys/devices/system/cpu"
ZONE = "/sys/class/powercap/intel-rapl:0"
FLAGS = "fpu tsc constant_tsc nonstop_tsc waitpkg"
CONFIG = {
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "ClusterName": "test",
    "PlugStackConfig": PLUGSTACK,
    "PrologFlags": "Alloc,Contain",
    "SLURM_CONF": "/etc/slurm/slurm.conf",
}
POLICIES = ("nap", "off", "umwait")
FAKE = """#!/bin/sh
[ -e '{answer}.hangs' ] && exec sleep 60
[ -e '{answer}.err' ] && cat '{answer}.err' >&2
[ -s '{answer}' ] && cat '{answer}'
status=0
[ -e '{answer}.status' ] && read -r status <'{answer}.status'
exit "$status"
"""


def policy(name: str, used: str = "", why: str = "", allowed: bool = True) -> dict[str, Any]:
    return {"name": name, "summary": name, "used": used or name, "why": why, "allowed": allowed}
NODE = "NodeName=n1 CoresPerSocket=2 CPUTot=2 Sockets=1 Boards=1 ThreadsPerCore=1"


class Owned(host.Host):
    """A host whose files belong to root unless the test names another owner."""

    owners: dict[str, tuple[int, int]]

    def status(self, path: str) -> os.stat_result | None:
        found = super().status(path)
        uid, gid = self.owners.get(path, (0, 0))
        return found and os.stat_result((*found[:4], uid, gid, *found[6:]), {})


class Machine:
    """A healthy machine. Every method breaks or mends one thing. Paths are those on the machine."""

    def __init__(self, folder: Path, monkeypatch: Any) -> None:
        self.folder, self.root, self.bin = folder, folder / "root", folder / "bin"
        self.user = 0
        self.owners: dict[str, tuple[int, int]] = {}
        self.bin.mkdir()
        self.root.mkdir()
        for tool in ("cat", "sleep"):
            (self.bin / tool).symlink_to(f"/bin/{tool}")
        monkeypatch.setenv("PATH", str(self.bin))
        monkeypatch.delenv("SLURM_CONF", raising=False)
        self._processor()
        self._energy()
        self._installation()
        self._slurm()
        self.make(SPOOL)
        self.write("/proc/self/mountinfo", "30 29 0:26 / /shared rw,relatime shared:1 - nfs4 server:/x rw\n")

    # --- files --------------------------------------------------------------------------------

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def write(self, path: str, text: str | bytes, mode: int = 0o644) -> Path:
        place = self.at(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
        place.chmod(mode)
        return place

    def make(self, path: str, mode: int = 0o755) -> Path:
        place = self.at(path)
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(mode)
        return place

    def give(self, path: str, uid: int, gid: int = 0) -> None:
        self.owners[path] = (uid, gid)

    def host(self) -> Owned:
        seen = Owned(str(self.root), self.user)
        seen.owners = self.owners
        return seen

    def remove(self, path: str) -> None:
        place = self.at(path)
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink()

    def record(self, path: str, age_s: float) -> None:
        place = self.write(path, "{}", 0o600)
        os.utime(place, (time.time() - age_s,) * 2)

    # --- parts --------------------------------------------------------------------------------

    def _processor(self) -> None:
        self.write("/proc/cpuinfo", f"processor : 0\nflags\t\t: {FLAGS}\n")
        self.write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
        self.write(f"{CPUS}/umwait_control/max_time", "100000\n")
        self.write(f"{CPUS}/umwait_control/enable_c02", "1\n")
        self.write(f"{CPUS}/cpuidle/current_driver", "intel_idle\n")
        self.write("/proc/sys/vm/memfd_noexec", "0\n")
        self.write("/sys/kernel/security/lsm", "lockdown,yama\n")
        for cpu in (0, 1):
            self.write(f"{CPUS}/cpu{cpu}/topology/thread_siblings_list", f"{cpu}\n")
            self.domain(f"policy{cpu}", related_cpus=str(cpu))

    def domain(self, name: str, **files: str) -> None:
        values = {"scaling_driver": "acpi-cpufreq", "scaling_governor": "schedutil", "related_cpus": "0", **files}
        for file, value in values.items():
            self.write(f"{CPUS}/cpufreq/{name}/{file}", value + "\n")

    def _energy(self) -> None:
        self.write(f"{ZONE}/name", "package-0\n")
        self.write(f"{ZONE}/energy_uj", "123\n", 0o400)

    def _installation(self) -> None:
        for path, built in ((PLUGIN, "spank/spank_mpi_wait.so"), (LIBRARY, "preload/libmpiwait.so")):
            self.write(path, (BUILD / built).read_bytes(), 0o755)
        for name in POLICIES:
            self.write(f"{SHIPPED}/{name}.json", "{}")
        self.plugstack(f"optional {PLUGIN} spool={SPOOL}")
        self.probe()
        self.write("/proc/700/comm", "slurmd\n")
        self.write("/proc/700/maps", f"7f00-7f01 r-xp 0 0:0 1 {PLUGIN}\n")

    def plugstack(self, *lines: str) -> None:
        self.write(PLUGSTACK, "\n".join(lines) + "\n")

    def probe(self, **changes: Any) -> None:
        """Sets the helper's answer; `real_helper` puts the real helper in its place."""
        zone = {"name": "package-0", "kind": "package", "energy_uj": 1, "range_uj": 262143328850, "power_max_uw": 2e8}
        answer = {
            "release": __version__,
            "node": "n1",
            "library": LIBRARY,
            "policies_directory": SHIPPED,
            "tsc_khz": 0,
            "rungs": {},
            "policies": [policy(name) for name in POLICIES],
            "left_out": "",
            "energy": {"source": "rapl", "why": "", "zones": [zone]},
            **changes,
        }
        self.helper(f"#!/bin/sh\ncat <<'END'\n{json.dumps(answer)}\nEND\n")

    def helper(self, script: str) -> None:
        self.write(HELPER, script, 0o755)

    def real_helper(self) -> None:
        self.write(HELPER, (BUILD / "spank/mpi-wait-node").read_bytes(), 0o755)

    # --- Slurm --------------------------------------------------------------------------------

    def _slurm(self) -> None:
        self.config()
        self.answers("sinfo", "n1\nn2\n")
        self.answers("sacctmgr", "test\nother\nSLURMDBD_VERSION = 22.05.8\n")
        self.answers("sacct", "")
        self.answers("squeue", "")

    def config(self, node: str = NODE, **changes: str) -> None:
        """Sets scontrol's answer to every question. node: its text on this node. changes: keys of slurm.conf."""
        lines = [node] + [f"{key:<24}= {value or '(null)'}" for key, value in {**CONFIG, **changes}.items()]
        self.answers("scontrol", "slurm 22.05.8\n" + "\n".join(lines) + "\n")

    def answers(self, command: str, out: str, status: int = 0, err: str = "") -> None:
        answer = self.folder / f"{command}.answer"
        answer.write_text(out)
        Path(f"{answer}.err").write_text(err)
        Path(f"{answer}.status").write_text(str(status))
        (self.bin / command).write_text(FAKE.format(answer=answer))
        (self.bin / command).chmod(0o755)

    def hangs(self, command: str) -> None:
        (self.folder / f"{command}.answer.hangs").touch()

    def without_slurm(self) -> None:
        for command in ("scontrol", "sinfo", "sacctmgr", "sacct", "squeue"):
            (self.bin / command).unlink()

    # --- the answer ---------------------------------------------------------------------------

    def findings(self) -> list[Finding]:
        return [
            finding
            for section in check.sections(self.host())
            for finding in section.findings
        ]

    def unwell(self) -> list[str]:
        """Returns the findings that are not OK, as "STATUS name: text"."""
        return [
            f"{finding.status.value} {finding.name}: {finding.what}"
            for finding in self.findings()
            if finding.status.value != "OK"
        ]

    def named(self, name: str) -> list[Finding]:
        return [finding for finding in self.findings() if finding.name == name]
