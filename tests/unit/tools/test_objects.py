"""The built objects: what they export, need and carry."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from mpi_wait_tools.site.elf_note import read_note

BUILD = Path(__file__).resolve().parents[3] / "build"
PLUGIN = BUILD / "spank/spank_mpi_wait.so"
PRELOAD = BUILD / "preload/libmpiwait.so"
ENERGY = BUILD / "spank/acct_gather_energy_mpi_wait.so"

CALLBACKS = {
    "init",
    "init_post_opt",
    "task_post_fork",
    "task_init",
    "task_exit",
    "exit",
    "job_prolog",
    "job_epilog",
}


def symbols(path: Path, *options: str) -> list[str]:
    listed = subprocess.run(
        ["nm", "-D", *options, path], capture_output=True, text=True, check=True
    )
    return [line.split()[-1] for line in listed.stdout.splitlines()]


def needed(path: Path) -> set[str]:
    listed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True)
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", listed.stdout))


def test_the_plugin_exports_its_callbacks_and_nothing_else() -> None:
    assert set(symbols(PLUGIN, "--defined-only")) == (
        {f"slurm_spank_{name}" for name in CALLBACKS}
        | {"plugin_name", "plugin_type", "plugin_version", "spank_plugin_version"}
    )


def test_the_energy_plugin_exports_its_interface_and_nothing_else() -> None:
    functions = (
        "update_node_energy",
        "get_data",
        "set_data",
        "conf_options",
        "conf_set",
        "conf_values",
    )
    assert set(symbols(ENERGY, "--defined-only")) == (
        {f"acct_gather_energy_p_{name}" for name in functions}
        | {"plugin_name", "plugin_type", "plugin_version", "init", "fini"}
    )
    assert not [name for name in needed(ENERGY) if "slurm" in name]


@pytest.mark.parametrize("path", [PLUGIN, ENERGY], ids=["plugin", "energy"])
def test_jansson_is_inside_the_plugin(path: Path) -> None:
    assert not [name for name in symbols(path, "--undefined-only") if name.startswith("json")]
    assert not [name for name in needed(path) if "jansson" in name]
    carried = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    assert re.search(r" t json_loadb$", carried, re.M)


def test_the_plugin_looks_for_its_files_below_the_prefix_of_the_build() -> None:
    options = json.loads((BUILD / "meson-info/intro-buildoptions.json").read_text())
    prefix = next(option["value"] for option in options if option["name"] == "prefix")
    note = read_note(str(PLUGIN)) or {}
    assert all(note[name].startswith(f"{prefix}/") for name in ("library", "helper")), note


def test_the_plugin_takes_slurm_from_its_host() -> None:
    assert not [name for name in needed(PLUGIN) if "slurm" in name]


@pytest.mark.parametrize("path", [PLUGIN, PRELOAD, ENERGY], ids=["plugin", "preload", "energy"])
def test_hardening(path: Path) -> None:
    """No writable and executable segment, no text relocation, relocations read-only after start."""
    headers = subprocess.run(
        ["readelf", "-lW", path], capture_output=True, text=True, check=True
    ).stdout
    assert "GNU_RELRO" in headers and "RWE" not in headers
    assert "BIND_NOW" in (
        dynamic := subprocess.run(["readelf", "-dW", path], capture_output=True, text=True).stdout
    ) or ("NOW" in dynamic)
    assert "TEXTREL" not in dynamic


def test_the_preload_library_needs_only_an_old_libc() -> None:
    """It is loaded into programs of older containers, where a newer symbol version would fail every exec."""
    listed = subprocess.run(
        ["objdump", "-T", PRELOAD], capture_output=True, text=True, check=True
    ).stdout
    versions = {
        tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", listed)
    }
    assert versions and max(versions) <= (2, 17), sorted(versions)
    assert needed(PRELOAD) <= {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}
    undefined = symbols(PRELOAD, "--undefined-only")
    assert not [name for name in undefined if name.endswith("_chk")]
    assert {name for name in undefined if name.startswith(("MPI_", "PMPI_", "opal_", "ompi_"))} == {
        "PMPI_Initialized"  # weak: whether it is there tells an MPI program from others
    }


def test_a_program_of_another_libc_runs_with_the_preload_library(tmp_path: Path) -> None:
    """As in a container of Alpine; musl ends programs for a symbol that it lacks."""
    (tmp_path / "ran.c").write_text('#include <stdio.h>\nint main(void) { return puts("ran") < 0; }\n')
    subprocess.run(["musl-gcc", "-o", tmp_path / "ran", tmp_path / "ran.c"], check=True)
    done = subprocess.run([tmp_path / "ran"], env={"LD_PRELOAD": str(PRELOAD)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
