"""mpi-wait check where parts of a machine are missing or hidden, and the form of its answer."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.lib.doubles.check_double import HELPER, OUTBOX, PLUGIN, PLUGSTACK, ROOT, SPOOL, Machine, check, host
from tests.lib.doubles.report_double import make_record


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(host, "TIMEOUT_S", 1)
    return Machine(tmp_path, monkeypatch)


def test_nothing_is_called_well_while_slurmctld_does_not_answer(machine: Machine) -> None:
    """No job starts meanwhile."""
    machine.answers("scontrol", "slurm 22.05.8\n", 1)
    assert check.verdict(check.sections(machine.host())).startswith("1 failure, ")


def test_a_warning_is_no_failure_and_not_nothing(machine: Machine) -> None:
    machine.remove("/sys/class/powercap")
    assert check.verdict(check.sections(machine.host())).startswith("No failure, 1 warning, ")


def test_the_kill_switch_is_named(machine: Machine) -> None:
    machine.plugstack(f"optional {PLUGIN} spool={SPOOL} default=off allow=off")
    assert "switched wait policies off" in machine.named("kill switch")[0].what


def test_a_command_that_leaves_a_child_behind_is_not_waited_for(machine: Machine) -> None:
    machine.write("/x", "#!/bin/sh\nsleep 30 &\n", 0o755)
    begin = time.monotonic()
    assert "did not answer" in host.Host().run([str(machine.at("/x"))]).problem
    assert time.monotonic() - begin < 10


def test_a_flood_is_cut(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "OUTPUT_MAX", 100_000)
    ran = host.Host().run(["/usr/bin/yes"])
    assert ran.done and len(ran.out) == 100_000


def test_without_slurm_it_says_so_and_goes_on(machine: Machine) -> None:
    machine.without_slurm()
    for path in (PLUGSTACK, HELPER, PLUGIN):
        machine.remove(path)
    unwell = machine.unwell()
    assert "WARN Slurm: there is none here: scontrol was not found" in unwell
    assert not [line for line in unwell if line.startswith("FAIL")], unwell
    assert machine.named("governors")[0].status.value == "OK"


def test_slurm_conf_names_the_plugstack_while_slurmctld_is_away(machine: Machine) -> None:
    machine.answers("scontrol", "slurm 22.05.8\n", 1)
    machine.write("/etc/slurm/slurm.conf", "ClusterName=test\nPlugStackConfig=/etc/slurm/other.conf # ours\n")
    machine.write("/etc/slurm/other.conf", f"optional {PLUGIN} spool={SPOOL}\n")
    assert machine.named("plugstack line")[0].what.startswith("/etc/slurm/other.conf:1")


def test_run_in_job_with_our_scripts_is_well(machine: Machine) -> None:
    machine.config(PrologFlags="Contain,RunInJob", Prolog="/etc/pro", Epilog="/etc/epi")
    machine.write("/etc/pro", "/opt/mpi-wait/sbin/mpi-wait-node prolog\n")
    machine.write("/etc/epi", "/opt/mpi-wait/sbin/mpi-wait-node epilog\n")
    assert [one.status.value for one in machine.named("PrologFlags")] == ["OK"]


def test_where_no_clock_is_changed_two_jobs_may_have_a_core(machine: Machine) -> None:
    machine.answers("sinfo", "low FORCE:2\n")
    machine.plugstack(f"optional {PLUGIN} spool={SPOOL} grant=off")
    assert machine.named("partitions") == []


@pytest.mark.parametrize(("mode", "owner"), [(0o1777, 0), (0o755, 65534)])
def test_a_way_to_the_spool_that_nobody_else_can_change(machine: Machine, mode: int, owner: int) -> None:
    """A sticky bit keeps what is below it, and spool_user may have the folders above the spool."""
    machine.plugstack(f"optional {PLUGIN} spool={SPOOL} spool_user=nobody")
    machine.at(SPOOL).parent.chmod(mode)
    machine.give(str(pathlib.Path(SPOOL).parent), owner)
    machine.give(SPOOL, 65534)
    assert [one.status.value for one in machine.named("spool")] == ["OK"]


def test_partial_records_of_the_last_day_are_counted(machine: Machine) -> None:
    whole, partial = make_record(), make_record()
    partial["mpi_wait"]["nodes"] = {"reported": 1, "of": 2, "why": "spool not shared"}
    lines = [json.dumps(whole), json.dumps(partial), "JS1:other", '{"mpi_wait": 7', ""]
    machine.answers("sacct", "\n".join(lines))
    (found,) = machine.named("stored")
    assert found.status.value == "WARN"
    assert found.what == "2 records of this node's jobs in the last 24 h, 1 of them 'spool not shared'"


@pytest.mark.parametrize("field", ["AdminComment", "SystemComment", "Extra"])
def test_records_are_counted_in_the_field_that_has_them(machine: Machine, field: str) -> None:
    """That of field=, or the next one, if another tool has it. An old sacct refuses Extra, and is not asked for it."""
    word = {"AdminComment": "admin_comment", "SystemComment": "system_comment", "Extra": "extra"}[field]
    machine.plugstack(f"optional {PLUGIN} spool={SPOOL} field={word}")
    record = machine.write("/record", f"JS1:other|{json.dumps(make_record())}\n")
    asked = {"Extra": "*,Extra", "SystemComment": "*,SystemComment", "AdminComment": "AdminComment,*"}[field]
    (machine.bin / "sacct").write_text(f'#!/bin/sh\ncase "$*" in *"-o "{asked}) cat "{record}" ;; *) exit 1 ;; esac\n')
    (found,) = machine.named("stored")
    assert (found.status.value, found.what) == ("OK", "1 record of this node's jobs in the last 24 h")


RESTORE = "#!/bin/sh\ncase $1 in --help) echo '  restore        undo' ;; restore) {} ;; *) cat '{}' ;; esac\n"


@pytest.mark.parametrize(
    "script,status,message",
    [
        ("exit 0", "OK", "nothing is left"),
        ("echo p0 >&2; exit 2", "WARN", "changes that were made for earlier jobs are still to be undone (p0)"),
        ("echo damaged >&2; exit 1", "FAIL", "restore --dry-run: damaged"),
    ],
)
def test_clocks_are_asked_for_where_there_are_any(
    machine: Machine, script: str, status: str, message: str
) -> None:
    text = machine.at(HELPER).read_text().split("\n")[2]
    machine.helper(RESTORE.format(script, machine.write("/answer", text)))
    (found,) = machine.named("clocks")
    assert found.status.value == status and found.what.startswith(message)
    machine.user = 1000
    (found,) = machine.named("clocks")
    assert found.status.value == "NOT SEEN" and "only root" in found.what


def test_without_a_helper_nothing_is_said_of_clocks(machine: Machine) -> None:
    """What an earlier release left may still be there."""
    machine.remove(HELPER)
    (found,) = machine.named("clocks")
    assert found.status.value == "NOT SEEN" and "did not answer" in found.what and found.do == "see 'helper'"


def test_coarse_timers_are_a_warning(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_getres", lambda clock: 0.004)
    assert "WARN timers: a resolution of 4 ms only" in machine.unwell()


@pytest.mark.parametrize("name,path", [("spool", SPOOL), ("outbox", OUTBOX)])
def test_a_full_disk_is_a_failure(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str, path: str
) -> None:
    real = os.statvfs

    def full(asked: Any) -> os.statvfs_result:
        found = real(asked)
        values = list(found)
        values[4] = 0 if str(asked).endswith(path) else values[4]
        return os.statvfs_result(values)

    machine.make(OUTBOX, 0o700)
    monkeypatch.setattr(os, "statvfs", full)
    assert f"FAIL {name}: '{path}' has 0 MiB left" in machine.unwell()


def test_sink_file_needs_no_database(machine: Machine) -> None:
    machine.config(AccountingStorageType="accounting_storage/none")
    machine.plugstack(f"optional {PLUGIN} spool={SPOOL} sink=file")
    assert machine.named("slurmdbd")[0].what.startswith("not needed")
    assert machine.named("stored") == []
    machine.config(AccountingStorageType="accounting_storage/slurmdbd")
    assert machine.named("stored") == []


def test_a_host_without_slurmd_is_one_to_submit_from(machine: Machine) -> None:
    machine.remove("/proc/700")
    assert machine.named("slurmd")[0].what.startswith("none runs here")


def test_one_node_needs_no_shared_spool(machine: Machine) -> None:
    machine.answers("sinfo", "n1\nn1\n")
    machine.write("/proc/self/mountinfo", "30 29 0:26 / / rw - ext4 /dev/sda rw\n")
    assert machine.named("spool")[0].what == f"'{SPOOL}', ext4"
    machine.plugstack(f"optional {PLUGIN}")
    assert machine.named("spool")[0].status.value == "OK"


def test_site_policies_hide_shipped_ones(machine: Machine) -> None:
    machine.write("/etc/own/nap.json", "{}")
    machine.plugstack(f"optional {PLUGIN} spool={SPOOL} policies=/etc/own")
    assert [one.what for one in machine.named("site's own")] == ["nap in place of the shipped"]


def test_nothing_is_changed(machine: Machine) -> None:
    def state() -> list[tuple[str, int, int, int]]:
        paths = sorted(machine.root.rglob("*"))
        return [(str(path), (s := path.lstat()).st_mode, s.st_uid, s.st_mtime_ns) for path in paths]

    machine.real_helper()
    before = state()
    machine.findings()
    assert state() == before


def command(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "contrib" / "mpi-wait"), "check", *argv],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **environment},
    )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_are_aligned_and_fit(width: int) -> None:
    lines = command("--width", str(width)).stdout.split("\n")
    heads = [line for line in lines if re.match(r"  (OK|WARN|FAIL|NOT SEEN) ", line)]
    assert heads and len({len(re.match(r"  [A-Z ]{8}  [^ ]+(?: [^ ]+)*  +", line).group()) for line in heads}) <= 2
    assert not [line for line in lines if len(line) > max(width, 60)]


def test_ascii_and_no_colour_where_there_is_no_terminal() -> None:
    text = command(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="ascii").stdout
    assert text.isascii() and "\x1b" not in text


def test_wrong_usage() -> None:
    assert command("now").returncode == 2
