"""Programs that come by their MPI in unusual ways, or leave it so, and clocks that jump: nothing breaks.

Under the virtual clock (tests/lib/doubles/virtual_time.c).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.lib.doubles.support import BUILD, NAP, ROOT, run, values

FAKE = BUILD / "tests/lib/doubles/libmpi-fake.so"
HOOKLESS = BUILD / "tests/lib/doubles/libmpi-hookless.so"
SOURCES = ROOT / "tests/lib/doubles"
TWO_MPIS, NO_HOOK, RUNNING = 1, 2, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corners")


def compiled(folder: Path, name: str, *words: object) -> Path:
    target = folder / name
    command = ["cc", "-O1", "-D_GNU_SOURCE", "-o", target, *words, "-ldl"]
    subprocess.run([str(word) for word in command], check=True, timeout=60)
    return target


def linked_to(folder: Path, name: str, *libraries: Path) -> Path:
    """The program, linked to those libraries where they are."""
    options = [f"-Wl,-rpath,{library.parent}" for library in libraries]
    return compiled(folder, name, SOURCES / "corners.c", "-Wl,--no-as-needed", *libraries, *options)


def test_functions_from_a_handle_are_not_seen_and_work(folder: Path) -> None:
    done, segment = run([compiled(folder, "bare", SOURCES / "corners.c"), "handle", FAKE], virtual=True)
    assert done.returncode == 0 and segment["claimed"] == 0 and segment["slots"] == []


@pytest.mark.parametrize("name", ["libmpi.so.40", "libmpi_nvidia.so.12", "libvendor.so"])
def test_an_mpi_that_a_plugin_brings_and_takes_away(folder: Path, name: str) -> None:
    mpi = compiled(folder, name, "-shared", "-fPIC", SOURCES / "fake_mpi.c", f"-Wl,-soname,{name}")
    source = folder / "plugin.c"
    source.write_text("""
        #include <stdint.h>
        int MPI_Init(int *, char ***);
        int MPI_Finalize(void);
        int MPI_Recv(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t);
        int plugin_run(void)
        {
            int code = MPI_Init(0, 0) | MPI_Recv(1, 100000, 3, 0, 5, 6, 7);
            return code | MPI_Finalize();
        }
    """)
    plugin = compiled(folder, f"plugin-{name}", "-shared", "-fPIC", source, mpi, f"-Wl,-rpath,{folder}")
    done, segment = run([compiled(folder, "bare", SOURCES / "corners.c"), "plugin", plugin], virtual=True)
    assert done.returncode == 0, done.stderr
    (slot,) = segment["slots"]
    receive = slot["lane"][0]["calls"]["Recv"]
    assert receive["calls"] == receive["waits"] == 1, "MPI is finalized once; what comes after that is forwarded"
    assert slot["lane"][0]["naps"]["nap"] > 10


def test_each_caller_of_ucx_gets_its_own_copy(folder: Path) -> None:
    """Python modules that bring a copy of UCX each, loaded with local symbols. More objects may call than are noted."""
    source, program = folder / "ucp.c", folder / "copies.c"
    source.write_text("""
        #ifdef COPY
        unsigned ucp_worker_progress(void *worker) { return worker ? COPY : 0; }
        #else
        unsigned ucp_worker_progress(void *);
        unsigned plugin_poll(void *worker) { return ucp_worker_progress(worker); }
        #endif
    """)
    program.write_text("""
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int count, char **paths)
        {
            for (int round = 0; round < 2; round++)
                for (int i = 1; i < count; i++) {
                    void *plugin = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);
                    printf("%u ", ((unsigned (*)(void *))dlsym(plugin, "plugin_poll"))(&round));
                }
        }
    """)
    plugins = []
    for copy in range(1, 11):
        name = f"libucp-{copy}.so"
        compiled(folder, name, "-shared", "-fPIC", source, f"-DCOPY={copy}", f"-Wl,-soname,{name}")
        plugins.append(compiled(folder, f"module-{copy}.so", "-shared", "-fPIC", source, folder / name,
                                f"-Wl,-rpath,{folder}"))
    done, _ = run([compiled(folder, "copies", program), *plugins], virtual=True)
    assert done.stdout.splitlines()[-1].split() == [str(copy) for copy in range(1, 11)] * 2


def test_two_mpis_are_left_alone(folder: Path) -> None:
    done, segment = run([linked_to(folder, "two", FAKE, HOOKLESS), "linked"], virtual=True)
    assert done.returncode == 0
    (slot,) = segment["slots"]
    assert slot["flags"] & TWO_MPIS and all(not lane["naps"] for lane in slot["lane"])


@pytest.mark.parametrize("name", ["libmpitrampoline.so.5", "libmpiwrapper.so", "libwi4mpi_OMPI_MPICH.so"])
def test_a_translator_of_abis_is_left_alone(folder: Path, name: str) -> None:
    source = folder / "empty.c"
    source.write_text("int translator_is_here = 1;\n")
    translator = compiled(folder, name, "-shared", "-fPIC", source, f"-Wl,-soname,{name}")
    done, segment = run([linked_to(folder, f"with-{name}", translator, FAKE), "linked"], virtual=True)
    assert done.returncode == 0
    (slot,) = segment["slots"]
    assert slot["flags"] & TWO_MPIS and not any(lane["naps"] for lane in slot["lane"])


def test_a_runtime_whose_idle_calls_are_not_yields_is_left_alone(folder: Path) -> None:
    """Open MPI on a library of user-level threads gives the core to another of these."""
    runtime = compiled(folder, "libmpi-threads.so", "-shared", "-fPIC", "-Dsched_yield=getppid",
                       SOURCES / "fake_mpi.c")
    done, segment = run([linked_to(folder, "threads", runtime), "linked"], virtual=True)
    assert done.returncode == 0
    (slot,) = segment["slots"]
    assert slot["flags"] & NO_HOOK and slot["hooks"] == 0 and all(not lane["naps"] for lane in slot["lane"])


def test_a_rank_that_has_its_mpi_inside(folder: Path) -> None:
    """Linked statically, but for libc: its own functions come first."""
    program = compiled(folder, "inside", SOURCES / "corners.c", SOURCES / "fake_mpi.c")
    done, segment = run([program, "linked"], virtual=True)
    assert done.returncode == 0 and segment["claimed"] == 0


def test_vfork_and_exec(folder: Path) -> None:
    done, segment = run([linked_to(folder, "fake", FAKE), "vfork"], virtual=True)
    assert done.returncode == 0 and segment["claimed"] == 1
    assert segment["slots"][0]["lane"][0]["calls"]["Recv"]["waits"] == 1


def test_abort(folder: Path) -> None:
    """The rank that aborts the job was busy with that, not waiting; what it did before is there."""
    done, segment = run([linked_to(folder, "fake", FAKE), "abort"], virtual=True)
    assert done.returncode == 3
    (slot,) = segment["slots"]
    calls = slot["lane"][0]["calls"]
    assert slot["state"] == RUNNING and calls["Recv"]["waits"] == 1 and calls["Abort"]["calls"] == 1


@pytest.mark.parametrize("readings", [500, 1800], ids=["between polls", "among naps"])
@pytest.mark.parametrize("jump_s", [-5, 7200, -100000, 10**9], ids=str)
def test_the_clock_jumps_in_a_wait(folder: Path, jump_s: int, readings: int) -> None:
    """For the library alone: a migrated machine, or one whose TSC is not what it seemed."""
    source = folder / "jump.c"
    source.write_text("""
        #include <dlfcn.h>
        #include <stdlib.h>
        #include <string.h>
        #include <time.h>
        int clock_gettime(clockid_t clock, struct timespec *now)
        {
            static int (*next)(clockid_t, struct timespec *);
            static long readings;
            Dl_info caller;
            int code;

            if (!next)
                next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
            code = next(clock, now);
            if (clock == CLOCK_MONOTONIC && dladdr(__builtin_return_address(0), &caller) &&
                strstr(caller.dli_fname, "libmpiwait") && ++readings > atol(getenv("JUMP_AFTER")))
                now->tv_sec += atol(getenv("JUMP_S"));
            return code;
        }
    """)
    jump = compiled(folder, "jump.so", "-shared", "-fPIC", source)
    command = [BUILD / "tests/lib/doubles/preload_driver", "wait"]
    done, segment = run(command, NAP, preload=jump, virtual=True, JUMP_S=str(jump_s), JUMP_AFTER=str(readings))
    seen = values(done)
    (thread,) = segment["slots"][0]["lane"]
    call = thread["calls"]["Recv"]
    shortest_ns = 199e6 if readings < 1000 else 150e6  # what was before a clock that went back is not known
    assert seen["code"] == 0 and seen["errno"] == 4711 and seen["slack"] == 50000
    assert call["waits"] == 1 and shortest_ns < call["wait_ns"] < 201e6 and call["longest_ns"] == call["wait_ns"]
    assert call["burned_ns"] == 0
    assert seen["naps"] == thread["naps"]["nap"] > 300
