#!/usr/bin/python3
"""late.c in Python: the same cells, the same output, and mpi4py's own recv of an object.

LATE_ABSENCE names the shared library of absence.c, which decides how long rank 0 is absent.
"""

from __future__ import annotations

import array
import ctypes
import functools
import os
import sys
import time
from collections.abc import Callable

import mpi4py

mpi4py.rc.finalize = False
from mpi4py import MPI  # noqa: E402

COUNT, TAG = 1000, 7
WORLD = MPI.COMM_WORLD
RANK = WORLD.rank
OTHER = 1 - RANK
MILLISECONDS = int(sys.argv[1]) if len(sys.argv) > 1 else 50
REPETITIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 2
Seen = tuple[str, int, str]  # the share, the sleeps, how the absence ended

absence = ctypes.CDLL(os.environ["LATE_ABSENCE"])
absence.absence_leave.restype = ctypes.c_char

mine, theirs = array.array("d", bytes(16 * COUNT)), array.array("d", bytes(16 * COUNT))
early, shown = array.array("d", bytes(8 * COUNT)), array.array("d", bytes(8 * COUNT))
half, whole = memoryview(mine)[:COUNT], memoryview(theirs)
taken = whole[:COUNT]
state: dict[str, object] = {}


def send(tag: int = TAG) -> None:
    if RANK == 0:
        WORLD.Send(half, dest=1, tag=tag)


def by_rank(*calls: Callable[[], object]) -> Callable[[], object]:
    return calls[RANK]


def two() -> None:
    if RANK == 0:
        send()
    else:
        state["requests"] = [WORLD.Irecv(early, 0, TAG), WORLD.Irecv(taken, 0, TAG + 1)]


def one() -> None:
    two()
    if RANK == 1:
        state["requests"][0].Wait()


def persistent() -> None:
    state["request"] = WORLD.Send_init(half, 1, TAG) if RANK == 0 else WORLD.Recv_init(taken, 0, TAG)


def start_and_wait() -> None:
    state["request"].Start()
    state["request"].Wait()


def mprobe() -> None:
    state["message"] = WORLD.Mprobe(0, TAG)


def mrecv() -> None:
    if RANK == 1:
        state["message"].Recv(taken)


def take_object() -> None:
    taken[:] = WORLD.recv(source=0, tag=TAG)


def free(name: str = "made") -> None:
    state[name].Free()


def made(make: Callable[[], object]) -> Callable[[], None]:
    return lambda: state.update(made=make())


def fence() -> None:
    if RANK == 0:
        window().Put(half, 1)
    window().Fence()


def lock() -> None:
    if RANK == 0:
        window().Put(half, 0)
    else:
        window().Lock(0)
        window().Get(taken, 0)
    window().Unlock(0)


def post() -> None:
    world = WORLD.Get_group()
    other = world.Incl([OTHER])
    by_rank(lambda: window().Start(other), lambda: window().Post(other))()
    other.Free()
    world.Free()


def complete() -> None:
    if RANK == 0:
        window().Put(half, 1)
        window().Complete()
    else:
        window().Wait()


def see() -> None:
    taken[:] = memoryview(shown)


def path() -> None:
    state["path"] = WORLD.bcast(f"{os.environ.get('LATE_FOLDER', '/tmp')}/late.{os.getpid()}")


def file_open() -> None:
    state["file"] = MPI.File.Open(WORLD, state["path"], MPI.MODE_CREATE | MPI.MODE_RDWR)


def opened() -> None:
    path()
    file_open()
    state["file"].Set_view(0, MPI.DOUBLE, MPI.DOUBLE)


def close() -> None:
    state["file"].Close()
    if RANK == 0:
        os.unlink(state["path"])
    WORLD.Barrier()


def read_and_close() -> None:
    state["file"].Sync()
    WORLD.Barrier()
    state["file"].Sync()
    state["file"].Read_at_all(0, whole)
    close()


def nothing() -> None:
    pass


ring = WORLD.Create_cart([2], [True])
alone = WORLD.Split(RANK, 0)
between = alone.Create_intercomm(0, WORLD, OTHER, TAG)


@functools.cache
def window() -> MPI.Win:
    """Makes the window on first use: a library that cannot make one still plays the other cells."""
    return MPI.Win.Create(shown, 8, comm=WORLD)


CELLS: dict[str, tuple[Callable[[], object], Callable[[], object], Callable[[], object]]] = {
    "Recv": (nothing, by_rank(send, lambda: WORLD.Recv(taken, 0, TAG)), nothing),
    "recv": (nothing, by_rank(lambda: WORLD.send(mine[:COUNT], 1, TAG), take_object), nothing),
    "Ssend": (nothing, by_rank(lambda: WORLD.Recv(taken, 1, TAG), lambda: WORLD.Ssend(half, 0, TAG)), nothing),
    "Sendrecv": (nothing, lambda: WORLD.Sendrecv(half, OTHER, TAG, taken, OTHER, TAG), nothing),
    "Wait": (nothing, by_rank(send, lambda: WORLD.Irecv(taken, 0, TAG).Wait()), nothing),
    "Waitall": (two, by_rank(lambda: send(TAG + 1), lambda: MPI.Request.Waitall(state["requests"])), nothing),
    "Waitany": (one, by_rank(lambda: send(TAG + 1), lambda: MPI.Request.Waitany(state["requests"])), nothing),
    "Waitsome": (one, by_rank(lambda: send(TAG + 1), lambda: MPI.Request.Waitsome(state["requests"])), nothing),
    "Probe": (nothing, by_rank(send, lambda: WORLD.Probe(0, TAG)), by_rank(nothing, lambda: WORLD.Recv(taken, 0, TAG))),
    "Mprobe": (nothing, by_rank(send, mprobe), mrecv),
    "Start+Wait": (persistent, start_and_wait, lambda: free("request")),
    "Barrier": (nothing, WORLD.Barrier, nothing),
    "Bcast": (nothing, lambda: WORLD.Bcast(half if RANK == 0 else taken, 0), nothing),
    "Allreduce": (nothing, lambda: WORLD.Allreduce(half, taken), nothing),
    "Allgather": (nothing, lambda: WORLD.Allgather(half, whole), nothing),
    "Alltoall": (nothing, lambda: WORLD.Alltoall(mine, whole), nothing),
    "Scan": (nothing, lambda: WORLD.Scan(half, taken), nothing),
    "Neighbor_allgather": (nothing, lambda: ring.Neighbor_allgather(half, whole), nothing),
    "Neighbor_alltoall": (nothing, lambda: ring.Neighbor_alltoall(mine, whole), nothing),
    "Barrier(inter)": (nothing, between.Barrier, nothing),
    "Bcast(inter)": (nothing, by_rank(lambda: between.Bcast(half, MPI.ROOT), lambda: between.Bcast(taken, 0)), nothing),
    "Allreduce(inter)": (nothing, lambda: between.Allreduce(half, taken), nothing),
    "Comm_dup": (nothing, made(WORLD.Dup), free),
    "Comm_split": (nothing, made(lambda: WORLD.Split(0, RANK)), free),
    "Intercomm_create": (nothing, made(lambda: alone.Create_intercomm(0, WORLD, OTHER, TAG)), free),
    "Win_fence": (lambda: window().Fence(), fence, see),
    "Win_lock": (by_rank(lambda: window().Lock(0), window), lock, WORLD.Barrier),
    "Win_wait": (post, complete, see),
    "File_open": (path, file_open, close),
    "File_sync": (opened, lambda: state["file"].Sync(), close),
    "File_write_ordered": (opened, lambda: state["file"].Write_ordered(half), read_and_close),
    "File_write_at_all": (opened, lambda: state["file"].Write_at_all(RANK * COUNT, half), read_and_close),
}


def measure_once(name: str, call: Callable[[], object]) -> Seen:
    if RANK == 0:
        absence.absence_stay(MILLISECONDS, name.encode())
        call()
        return "-", 0, "t"
    absence.absence_enter(name.encode())
    cpu, wall = time.thread_time(), time.monotonic()
    call()
    cpu, wall = time.thread_time() - cpu, time.monotonic() - wall
    sleeps = ctypes.c_long()
    end = absence.absence_leave(ctypes.byref(sleeps)).decode()
    return "-" if end == "r" else f"{cpu / wall:.4f}", sleeps.value, end


def row_print(name: str, seen: list[Seen], result: str) -> None:
    if RANK == 1:
        shares, sleeps, ends = zip(*seen)
        print(name, ",".join(shares), ",".join(map(str, sleeps)), "".join(ends), result, flush=True)


def measure(name: str) -> None:
    prepare, call, release = CELLS[name]
    seen, total = [], 0.0
    whole[:] = memoryview(array.array("d", bytes(16 * COUNT)))
    for repetition in range(REPETITIONS):
        for index in range(2 * COUNT):
            mine[index] = (index + repetition + 1) / (7.0 + RANK)
        prepare()
        WORLD.Barrier()
        seen.append(measure_once(name, call))
        release()
        for index, value in enumerate(theirs):
            total += value * (index + 1)
    row_print(name, seen, total.hex())


def main() -> None:
    for name in sys.argv[3:] or CELLS:
        if name in CELLS:
            measure(name)
    if window.cache_info().currsize:
        window().Free()
    for kept in (between, alone, ring):
        kept.Free()
    WORLD.Barrier()
    row_print("Finalize", [measure_once("Finalize", MPI.Finalize)], "0")


main()
