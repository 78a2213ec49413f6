"""The idle hook of libfabric on a double of it (tests/lib/doubles/fake_fabric.c), under the virtual clock.

The double's tables end where memory ends, and the component that uses it is loaded so that nobody else sees either.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

import pytest

from tests.lib.doubles.support import BUILD, LIBRARY, NAP, ROOT, VIRTUAL, run, values

DRIVER = BUILD / "tests/lib/doubles/fabric_driver"
COMPONENT = BUILD / "tests/lib/doubles/libfabric-component.so"
STEPS = BUILD / "tests/lib/doubles/steps"
HEADER = ROOT / "preload/idle/fabric.h"
OFI, NO_HOOK, LOCKED = 16, 2, 16
POLLS, FREE, TURNS, COUNTED = 20000, 64, 2000, 64
REFUSED = -7  # what the functions do that the library does not know


def play(scene: str, config: str | None = NAP, **environment: str) -> tuple[dict[str, float], dict]:
    done, segment = run([DRIVER, COMPONENT, scene], config, virtual=True, **environment)
    assert done.returncode == 0, done.stderr
    return values(done), segment["slots"][0] if segment["slots"] else {}


def naps(slot: dict) -> int:
    return sum(lane["naps"].get("nap", 0) for lane in slot["lane"])


def polls(slot: dict) -> dict[str, int]:
    return slot["lane"][0]["hook_polls"]


@pytest.mark.parametrize("scene", ["poll", "readfrom", "counter", "longer", "shorter", "newer", "several", "chosen",
                                   "copied", "reopen", "reopen_past", "jump"])
@pytest.mark.parametrize("scope", ["local", "global"])
def test_a_read_that_finds_nothing_is_an_idle_poll(scene: str, scope: str) -> None:
    """However the queue was opened: each read beyond the free ones is looked at, and the rank naps."""
    seen, slot = play(scene, **({"FABRIC_GLOBAL": "1"} if scope == "global" else {}))
    assert (slot["family"], slot["hooks"], slot["flags"] & NO_HOOK) == ("mpich", OFI, 0)
    assert polls(slot) == {"ofi": POLLS - FREE + 1} and naps(slot) == seen["naps"] > 500
    assert seen.get("errno", 4711) == 4711 and seen.get("right", 1) == 1 and seen.get("source", 4711) == 4711


@pytest.mark.parametrize("scene", ["completions", "errors", "nothing", "moving"])
def test_a_read_that_finds_something_is_none(scene: str) -> None:
    """A completion, one that failed, a read of no entries, a counter that has moved."""
    seen, slot = play(scene)
    assert polls(slot) == {} and naps(slot) == 0 and slot["flags"] & NO_HOOK == 0
    assert seen["errno"] == 4711 and "count" not in seen


def test_a_policy_that_only_measures_spends_no_time() -> None:
    _, slot = play("poll", "rungs=none")
    assert polls(slot) == {"ofi": POLLS - FREE + 1} and naps(slot) == 0
    assert slot["lane"][0]["calls"]["Recv"]["waits"] == 1


def test_nothing_naps_outside_of_a_blocking_call() -> None:
    seen, slot = play("outside")
    assert seen["watched"] == 1 and polls(slot) == {} and slot["lane"][0]["naps"] == {} and seen["naps"] == 0


def test_without_a_configuration_no_table_is_touched() -> None:
    seen, _ = play("outside", None)
    assert seen["watched"] == 0


def test_what_the_program_opened_before_mpi_is_its_own() -> None:
    seen, slot = play("before")
    assert seen["watched"] == 0 and polls(slot) == {} and slot["flags"] & NO_HOOK


def test_a_longer_table_keeps_its_tail() -> None:
    seen, _ = play("longer")
    assert {name: seen[f"{name}_bytes"] for name in ("fabric", "domain", "queue", "counter")} == dict.fromkeys(
        ("fabric", "domain", "queue", "counter"), 200)
    assert {seen[f"{name}_last"] for name in ("fabric", "domain", "queue", "counter")} == {REFUSED}
    assert seen["watched"] == 4


def test_a_shorter_table_stays_short() -> None:
    """As of libfabric 1.0. Behind it there is no memory."""
    seen, _ = play("shorter")
    assert [seen[f"{name}_bytes"] for name in ("fabric", "domain", "queue", "counter")] == [40, 72, 64, 48]
    assert seen["watched"] == 4


@pytest.mark.parametrize("scene", ["too_long", "too_short", "foreign"])
def test_a_table_that_cannot_be_changed_stays_and_the_record_says_so(scene: str) -> None:
    seen, slot = play(scene)
    assert seen["watched"] == {"too_long": 3}.get(scene, 0)
    assert polls(slot) == {} and slot["flags"] & NO_HOOK


def test_two_entry_points_of_newer_libraries() -> None:
    seen, slot = play("newer")
    assert (seen["refused"], seen["code"], seen["watched"]) == (-22, 0, 1) and slot["hooks"] == OFI


def test_a_caller_of_the_first_version_passes_by() -> None:
    """Its attributes are other ones."""
    seen, slot = play("older")
    assert (seen["older"], seen["watched"]) == (1, 0) and slot["flags"] & NO_HOOK


@pytest.mark.parametrize("scene", ["reopen", "reopen_past"])
def test_places_do_not_run_out(scene: str) -> None:
    """A queue is closed and opened 2 000 times at the same address; also by somebody who goes past its table."""
    seen, slot = play(scene)
    assert (seen["same"], seen["watched"], seen["closed"]) == (TURNS, TURNS, TURNS)
    assert polls(slot)["ofi"] > 0


def test_a_queue_that_cannot_be_closed_stays_watched() -> None:
    seen, slot = play("close")
    assert seen["refused"] == -16 and polls(slot) == {"ofi": POLLS - FREE + 1}
    assert (seen["closed"], seen["closings"]) == (0, 4)


def test_more_queues_than_places() -> None:
    """512 objects are watched, the others work; the record says so. Places come free again."""
    seen, slot = play("many")
    assert seen["watched"] == 512 - 3 and seen["reads"] == 600 and seen["again"] == 1
    assert slot["flags"] & NO_HOOK and polls(slot)["ofi"] == POLLS - FREE + 1


def test_what_a_provider_opens_for_itself_is_its_own() -> None:
    seen, _ = play("layers")
    assert (seen["in_fabric"], seen["in_domain"], seen["own"], seen["outer"]) == (0, 0, 0, 1)


def test_a_fabric_that_several_have_opened() -> None:
    """It is watched until MPI has closed it as often as it opened it; then it works as if it never had been."""
    seen, slot = play("shared")
    assert (seen["same"], seen["closed"], seen["watched"]) == (1, 0, 1) and polls(slot)["ofi"] == POLLS - FREE + 1
    assert (seen["closing"], seen["left"], seen["opened"]) == (0, 0, 0)


def test_a_child_reads_and_counts_nothing() -> None:
    seen, slot = play("fork")
    assert seen["child"] == 0 and polls(slot) == {"ofi": POLLS - FREE + 1}


def test_threads_open_close_and_read_at_the_same_time() -> None:
    """A second thread has called MPI: nothing naps under the runtime's lock, and one poll in 64 is looked at."""
    seen, slot = play("threads")
    assert "thread" not in seen and seen["closings"] == 6 * TURNS
    polled = [lane["hook_polls"].get("ofi", 0) for lane in slot["lane"] if lane["calls"].get("Recv")]
    assert len(polled) == 6 and all(0 < count <= POLLS for count in polled)
    assert min(polled) <= POLLS // 64 and slot["lane"][0]["hook_polls"] == {}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions of x86-64 are counted")
def test_a_read_outside_of_a_blocking_call_costs_few_instructions() -> None:
    def per_read(**environment: str) -> float:
        done = subprocess.run([STEPS, DRIVER, COMPONENT, "counted"], check=True, capture_output=True, text=True,
                              timeout=60, env=os.environ | environment)
        return values(done)["steps"] / COUNTED

    bare = per_read()
    inert = per_read(LD_PRELOAD=f"{LIBRARY}:{VIRTUAL}") - bare
    acts = per_read(LD_PRELOAD=f"{LIBRARY}:{VIRTUAL}", MPI_WAIT_CONFIG=f"v=1;{NAP}") - bare
    print(f"added instructions per read: inert {inert}, acts {acts}")
    assert bare > 3 and abs(inert) < 1 and 5 < acts < 40


FIELDS = """
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include "preload/idle/fabric.h"
#define AT(type, member, index) \\
    _Static_assert(offsetof(struct type, member) == offsetof(struct fabric_table, function[index]), #member)
#define OBJECT(type) \\
    _Static_assert(offsetof(struct type, fid.ops) == offsetof(struct fabric_object, table[FABRIC_COMMON]), #type); \\
    _Static_assert(offsetof(struct type, ops) == offsetof(struct fabric_object, table[FABRIC_OWN]), #type)
#define LEAST(type, bytes) _Static_assert(sizeof(struct type) >= (bytes) && \\
    sizeof(struct type) <= sizeof(struct fabric_table), #type)
OBJECT(fid_fabric); OBJECT(fid_domain); OBJECT(fid_cq); OBJECT(fid_cntr);
AT(fi_ops, close, FABRIC_CLOSE);
AT(fi_ops_fabric, domain, FABRIC_DOMAIN);
AT(fi_ops_fabric, domain2, FABRIC_DOMAIN2);
AT(fi_ops_domain, cq_open, FABRIC_CQ_OPEN);
AT(fi_ops_domain, cntr_open, FABRIC_CNTR_OPEN);
AT(fi_ops_cq, read, FABRIC_READ);
AT(fi_ops_cq, readfrom, FABRIC_READFROM);
AT(fi_ops_cntr, read, FABRIC_READ);
LEAST(fi_ops, FABRIC_COMMON_LEAST);
LEAST(fi_ops_fabric, FABRIC_FABRIC_LEAST);
LEAST(fi_ops_domain, FABRIC_DOMAIN_LEAST);
LEAST(fi_ops_cq, FABRIC_CQ_LEAST);
LEAST(fi_ops_cntr, FABRIC_CNTR_LEAST);
_Static_assert(FI_EAGAIN == 11, "as the kernel's");
fabric_read_function *read_of(struct fid_cq *queue) { return (fabric_read_function *)queue->ops->read; }
"""


def compiled(text: str, folder: Path) -> str:
    source = folder / "fields.c"
    source.write_text(text)
    done = subprocess.run(["gcc", "-std=gnu11", "-Wall", f"-I{ROOT}", "-fsyntax-only", source], capture_output=True,
                          text=True, timeout=60, check=False)
    return done.stderr if done.returncode else ""


def test_the_types_are_those_of_libfabrics_headers(tmp_path: Path) -> None:
    """And the test notices a function that has another place."""
    if compiled("#include <rdma/fabric.h>\n", tmp_path):
        pytest.skip("no headers of libfabric")
    assert compiled(FIELDS, tmp_path) == ""
    assert len(re.findall(r"^\tFABRIC_[A-Z0-9_]+ = \d,", HEADER.read_text(), re.M)) == 7, "an index is not compared"
    assert "static assertion failed" in compiled(FIELDS.replace("cq_open, FABRIC_CQ_OPEN", "cq_open, FABRIC_CNTR_OPEN"),
                                                 tmp_path)
