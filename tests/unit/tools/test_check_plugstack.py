"""mpi-wait check on plugstack lines and shared objects, the hostile ones among them."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import pytest

from tests.lib.doubles.check_double import PLUGIN, PLUGSTACK, SPOOL, Machine, files, host


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(host, "TIMEOUT_S", 1)
    return Machine(tmp_path, monkeypatch)


ARGUMENTS = [
    ("tuesday=yes", "'tuesday=yes' (no such argument)"),
    ("spool=relative", "'spool=relative' (accepted: spool=an absolute path)"),
    ("writer=nobody", "'writer=nobody' (accepted: writer=node|sweep)"),
    ("--state=/etc", "'--state=/etc' (no such argument)"),
    ("--partial", "'--partial' (no such argument)"),
    ("--", "'--' (no such argument)"),
    ("$(touch${IFS}/tmp/x)", "'$(touch${IFS}/tmp/x)' (no such argument)"),
    ("default=off;reboot", "'default=off;reboot' (accepted: default=a policy's name)"),
    ("a\x1b[2Jb", "'a\\x1b[2Jb' (no such argument)"),
    ("default=off\r", "'default=off\\r' (accepted: default=a policy's name)"),
]


@pytest.mark.parametrize("word,message", ARGUMENTS, ids=[repr(word) for word, _ in ARGUMENTS])
def test_arguments_are_judged_by_the_plugins_own_parser(machine: Machine, word: str, message: str) -> None:
    machine.real_helper()
    machine.plugstack(f"optional {PLUGIN} spool={SPOOL} {word}")
    (found,) = machine.named("arguments")
    assert found.status.value == "FAIL" and found.what == message
    assert "does nothing at all" in found.means
    assert [one.status.value for one in machine.named("spool")] == ["NOT SEEN"]


LINES = [
    (f"optional {PLUGIN} # spool=/x", ""),
    (f"  optional\t{PLUGIN}\tspool={SPOOL}", f"spool={SPOOL}"),
    (f"optional {PLUGIN} spool={SPOOL}\0 tuesday=1", f"spool={SPOOL}"),
    (f'optional {PLUGIN} "spool={SPOOL}"', None),
    (f"# optional {PLUGIN}\noptional {PLUGIN} spool={SPOOL}", f"spool={SPOOL}"),
]


@pytest.mark.parametrize("text,words", LINES, ids=[repr(text) for text, _ in LINES])
def test_lines_are_cut_as_slurm_cuts_them(machine: Machine, text: str, words: str | None) -> None:
    machine.real_helper()
    machine.plugstack(text)
    (found,) = machine.named("arguments")
    assert found.status.value == "FAIL" if words is None else found.what == (words or "none")


@pytest.mark.parametrize("line", [f"optional {PLUGIN}", f"optional {PLUGIN} spool={SPOOL}", "include more/*"])
def test_a_carriage_return_is_named(machine: Machine, line: str) -> None:
    """An editor on Windows writes one. Slurm then finds no plugin, no included file, or hands on a wrong argument."""
    machine.write("/etc/slurm/more/mpi-wait.conf", f"optional {PLUGIN}\n")
    for text, number in ((f"{line}\r\n", 1), (f"# ours\r\n{line}\r\n", 2)):
        machine.plugstack(text)
        said = [found for found in machine.named("plugstack line") if found.status.value == "FAIL"]
        assert [f"{PLUGSTACK}:{number} ends with a carriage return" in found.what for found in said] == [True]
    machine.plugstack(f"{line}\noptional /usr/lib/other.so\r\n# comment\r\n\r\n")
    assert not [found for found in machine.named("plugstack line") if found.status.value == "FAIL"]
    machine.plugstack(f"{line} # ours\r\n")
    assert not [found for found in machine.named("plugstack line") if found.status.value == "FAIL"]


def test_a_relative_plugin_is_looked_for_in_plugindir(machine: Machine) -> None:
    machine.config(PluginDir=os.path.dirname(PLUGIN))
    machine.plugstack(f"optional spank_mpi_wait.so spool={SPOOL}")
    assert any("which is no absolute path" in line for line in machine.unwell())
    assert machine.named("plugin")[0].status.value == "OK"


def test_without_files_on_the_nodes_slurms_cache_is_read(machine: Machine) -> None:
    machine.config(PlugStackConfig="", SLURM_CONF="/etc/slurm/slurm.conf")
    machine.write("/run/slurm/conf/slurm.conf", "")
    machine.write("/run/slurm/conf/plugstack.conf", f"optional {PLUGIN} spool={SPOOL}\n")
    assert machine.named("plugstack line")[0].what.startswith("/run/slurm/conf/plugstack.conf:1")


def test_bytes_that_are_no_text_are_shown_as_such(machine: Machine) -> None:
    machine.real_helper()
    machine.write(PLUGSTACK, b"optional " + PLUGIN.encode() + b" spool=\xff\x1b[31m\n")
    (found,) = machine.named("arguments")
    assert found.status.value == "FAIL" and "\x1b" not in found.what


def test_an_included_line_is_found(machine: Machine) -> None:
    machine.plugstack("include plugstack.conf.d/*.conf")
    machine.write("/etc/slurm/plugstack.conf.d/wait.conf", f"optional {PLUGIN} spool={SPOOL}\n")
    assert machine.named("plugstack line")[0].what.startswith("/etc/slurm/plugstack.conf.d/wait.conf:1")


def test_a_foreign_file_that_is_included_twice_is_no_fault(machine: Machine) -> None:
    machine.plugstack("include other.conf", "include other.conf", f"optional {PLUGIN} spool={SPOOL}")
    machine.write("/etc/slurm/other.conf", "required /usr/lib/other.so a b\n")
    assert [one.status.value for one in machine.named("plugstack line")] == ["OK"]


def test_includes_without_end_are_given_up(machine: Machine) -> None:
    for number in range(80):
        machine.write(f"/etc/slurm/{number}.conf", f"include {number + 1}.conf\n")
    machine.plugstack(f"optional {PLUGIN} spool={SPOOL}", "include 0.conf")
    assert any("is one of too many includes" in line for line in machine.unwell())


HOSTILE_OBJECTS = {
    "empty": b"",
    "cut header": b"\x7fELF\x02\x01" + b"\0" * 40,
    "endless table": b"\x7fELF\x02\x01" + b"\xff" * 4000,
    "notes that end nowhere": None,
}


@pytest.mark.parametrize("data", HOSTILE_OBJECTS.values(), ids=HOSTILE_OBJECTS.keys())
def test_an_object_that_is_damaged_is_not_ours(machine: Machine, data: bytes | None) -> None:
    if data is None:
        built = machine.at(PLUGIN).read_bytes()
        place = built.index(b"mpiwait\0") - 12
        data = built[: place + 4] + b"\xff\xff\xff\x7f" + built[place + 8 :]
    machine.write(PLUGIN, data, 0o755)
    (found,) = machine.named("plugin")
    assert found.status.value == "FAIL" and "is not ours" in found.what


def link_in_a_folder_of_others(machine: Machine) -> None:
    machine.make("/home/u")
    machine.give("/home/u", 1000, 1000)
    machine.at("/home/u/spank_mpi_wait.so").symlink_to(PLUGIN)


def link_of_others(machine: Machine) -> None:
    machine.make("/tmp", 0o1777)
    machine.at("/tmp/spank_mpi_wait.so").symlink_to(PLUGIN)
    machine.give("/tmp/spank_mpi_wait.so", 1000, 1000)


def folder_of_a_group(machine: Machine) -> None:
    machine.make("/usr/local/lib", 0o2775)
    machine.give("/usr/local/lib", 0, 50)
    machine.at("/usr/local/lib").chmod(0o2775)
    machine.at("/usr/local/lib/spank_mpi_wait.so").symlink_to(PLUGIN)


def folder_of_roots_group(machine: Machine) -> None:
    machine.make("/srv/lib", 0o775)
    machine.at("/srv/lib/spank_mpi_wait.so").symlink_to("../../" + PLUGIN.lstrip("/"))


def circle(machine: Machine) -> None:
    machine.make("/srv")
    machine.at("/srv/spank_mpi_wait.so").symlink_to("spank_mpi_wait.so")


WAYS = [
    (link_in_a_folder_of_others, "/home/u/spank_mpi_wait.so", "'/home/u' belongs to uid 1000"),
    (link_of_others, "/tmp/spank_mpi_wait.so", "'/tmp/spank_mpi_wait.so' belongs to uid 1000"),
    (folder_of_a_group, "/usr/local/lib/spank_mpi_wait.so", "'/usr/local/lib' has mode 2775, of group 50"),
    (folder_of_roots_group, "/srv/lib/spank_mpi_wait.so", ""),
]


@pytest.mark.parametrize("make,path,message", WAYS, ids=[make.__name__ for make, _, _ in WAYS])
def test_every_step_to_the_plugin_counts(
    machine: Machine, make: Callable[[Machine], None], path: str, message: str
) -> None:
    make(machine)
    assert files.writable_by_others(machine.host(), path) == message


def test_a_circle_of_links_is_no_plugin(machine: Machine) -> None:
    circle(machine)
    machine.plugstack("optional /srv/spank_mpi_wait.so")
    (found,) = machine.named("plugin")
    assert found.status.value == "FAIL" and "cannot be read: Too many levels" in found.what


PYXIS = "optional /usr/local/lib/slurm/spank_pyxis.so"


def test_a_container_plugin_behind_ours_is_named(machine: Machine) -> None:
    """Includes are read by name, as Slurm's are."""
    ours = f"optional {PLUGIN} spool={SPOOL}\n"
    machine.plugstack("include /etc/slurm/plugstack.conf.d/*.conf")
    machine.write("/etc/slurm/plugstack.conf.d/pyxis.conf", f"optional x11.so\n{PYXIS}\n")
    machine.write("/etc/slurm/plugstack.conf.d/zz-mpi-wait.conf", ours)
    assert machine.named("plugstack order") == []
    machine.write("/etc/slurm/plugstack.conf.d/mpi-wait.conf", ours)
    machine.remove("/etc/slurm/plugstack.conf.d/zz-mpi-wait.conf")
    (found,) = machine.named("plugstack order")
    assert found.status.value == "WARN" and "zz-mpi-wait.conf" in found.do
    assert found.what == "our line stands before spank_pyxis.so (/etc/slurm/plugstack.conf.d/pyxis.conf:2)"
    machine.plugstack(f"{PYXIS}\n{ours}optional private-tmp.so")
    assert machine.named("plugstack order") == []


BINDS = ["bind path = /opt", "  bind path=/opt/mpi-wait/lib/mpi-wait", "bind path = /opt/mpi-wait:/opt/mpi-wait:ro"]
NO_BINDS = ["", "# bind path = /opt", "bind path = /opt/mpi-wait:/mnt", "bind path = /opt/mpi"]


@pytest.mark.parametrize("line", [*BINDS, *NO_BINDS])
def test_runtimes_that_do_not_show_the_library_are_named(machine: Machine, line: str) -> None:
    assert machine.named("containers") == [], "without a runtime there is nothing to say"
    machine.write("/etc/apptainer/apptainer.conf", f"bind path = /etc/hosts\n{line}\n")
    found = machine.named("containers")
    assert [one.status.value for one in found] == ([] if line in BINDS else ["WARN"])
    assert all("'bind path = /opt/mpi-wait/lib/mpi-wait'" in one.do for one in found)
