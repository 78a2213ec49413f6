"""Under the key sites waits are told apart by where the program called from, through MPI's layer for Fortran too."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.lib.doubles.support import BUILD, NAP, ROOT, run

DRIVER = BUILD / "tests/lib/doubles/preload_driver"
SITES = NAP + ";sites=1"


def play(scene: str, config: str | None = SITES) -> dict[str, Any]:
    done, segment = run([DRIVER, scene], config, virtual=True)
    assert done.returncode == 0, done.stderr
    return segment["slots"][0]


def function(site: dict[str, Any]) -> str:
    """The function of the program that it is in: one less than where the call returns to."""
    command = ["addr2line", "-f", "-e", str(DRIVER), hex(site["offset"] - 1)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]


def test_waits_are_summed_by_the_place_that_called() -> None:
    slot = play("sites")
    sites = {function(site): site for site in slot["sites"] if site["module"] == "preload_driver"}
    found = {name: (site["call"], site["waits"], round(site["wait_ns"] / 1e6)) for name, site in sites.items()}
    assert found == {
        "site_twice": ("Recv", 2, 2), "site_once": ("Sendrecv", 1, 4),
        "site_fortran": ("Recv", 1, 16), "site_fortran_too": ("Recv", 1, 32),
    }
    layers = [site for site in slot["sites"] if site["layer"]]
    assert [site["module"] for site in layers] == ["libmpifort.so"] and layers[0]["waits"] == 0
    assert sum(site["wait_ns"] for site in slot["sites"]) == sum(
        call["wait_ns"] for call in slot["lane"][0]["calls"].values())


def test_a_module_is_told_by_its_build_id() -> None:
    notes = subprocess.run(["readelf", "-n", str(DRIVER)], capture_output=True, text=True, check=True).stdout
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)
    assert build_id
    assert {site["build_id"] for site in play("sites")["sites"] if not site["layer"]} == {build_id[1]}


def test_more_places_than_there_is_room_for_are_one() -> None:
    *sites, others = play("sites_many")["sites"]
    assert len(sites) == 64 and {site["waits"] for site in sites} == {1}
    assert others["waits"] == 80 - 64 and not others["module"]


@pytest.mark.parametrize("config", [NAP, NAP + ";profile=1", NAP + ";sites=0"])
def test_without_the_key_no_place_is_noted(config: str) -> None:
    assert play("sites", config)["sites"] == []


SIGNS = "paciasp", "hint\t#25"
CALLER = """
int next(void);
void *frame;
int MPI_Barrier(void)
{
	frame = __builtin_frame_address(0);
	return next() + 1;
}
"""


@pytest.mark.skipif(not shutil.which("clang"), reason="needs a compiler for AArch64")
def test_return_addresses_are_not_signed_where_distributions_ask_for_it(tmp_path: Path) -> None:
    """On AArch64 a signed one in a call's frame would be in no module. The library's own options come last."""
    text = (ROOT / "preload/meson.build").read_text()
    source = tmp_path / "barrier.c"
    source.write_text(CALLER)
    command = ["clang", "--target=aarch64-linux-gnu", "-O2", "-S", "-o", "-", "-mbranch-protection=standard"]
    own = re.findall(r"get_supported_arguments\('(-m[^']+)'\)", text)
    signed, plain = (subprocess.run([*command, *options, source], capture_output=True, text=True, check=True).stdout
                     for options in ((), own))
    assert any(word in signed for word in SIGNS) and not any(word in plain for word in SIGNS)
