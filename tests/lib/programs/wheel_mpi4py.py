#!/usr/bin/python3
"""Calls once each what a Python program does with MPI. Rank 0 prints the results of all ranks.

mpi4py's wheel finds the MPI's functions by weak references. A missing one raises NotImplementedError.
"""

import array
import importlib
import sys
from collections.abc import Callable

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
right, left = (rank + 1) % size, (rank - 1) % size
results = {}


def numbers(count: int, seed: int) -> array.array:
    return array.array("d", [(seed * 31 + index) / 7 for index in range(count)])


def zeros(count: int) -> array.array:
    return array.array("d", bytes(8 * count))


def point_to_point() -> None:
    results["recv"] = world.sendrecv({"from": rank}, dest=right, source=left)
    got = zeros(100)
    requests = [world.Isend(numbers(100, rank), dest=right), world.Irecv(got, source=left)]
    MPI.Request.Waitall(requests)
    results["Irecv"] = got.tolist()
    if rank == 0:
        world.Send(numbers(50, 4), dest=size - 1)
    if rank == size - 1:
        got = zeros(50)
        world.Recv(got, source=0)
        results["Recv"] = got.tolist()
    world.Sendrecv(numbers(3, rank), right, recvbuf=got, source=left)
    results["Sendrecv"] = got.tolist()


def collectives() -> None:
    got = numbers(10, rank)
    world.Bcast(got, root=size - 1)
    results["Bcast"] = got.tolist()
    got = zeros(10)
    world.Allreduce(numbers(10, rank), got)
    results["Allreduce"] = got.tolist()
    got = zeros(2)
    world.Reduce_scatter(numbers(2 * size, rank), got, [2] * size)
    results["Reduce_scatter"] = got.tolist()
    results["gather"] = world.gather(rank * 11, root=0)


def vectors() -> None:
    counts = [index + 1 for index in range(size)]
    places = [sum(counts[:index]) for index in range(size)]
    got = zeros(sum(counts))
    world.Allgatherv(numbers(rank + 1, rank), [got, counts, places, MPI.DOUBLE])
    results["Allgatherv"] = got.tolist()
    got = zeros(sum(counts)) if rank == 1 else None
    world.Gatherv(numbers(rank + 1, rank), [got, counts, places, MPI.DOUBLE] if rank == 1 else None, root=1)
    results["Gatherv"] = got.tolist() if got else None
    got = zeros(rank + 1)
    world.Scatterv([numbers(sum(counts), 3), counts, places, MPI.DOUBLE] if rank == 0 else None, got, root=0)
    results["Scatterv"] = got.tolist()
    got = zeros(size * (rank + 1))
    mine = [rank + 1] * size
    spread = [index * (rank + 1) for index in range(size)]
    world.Alltoallv([numbers(sum(counts), rank), counts, places, MPI.DOUBLE], [got, mine, spread, MPI.DOUBLE])
    results["Alltoallv"] = got.tolist()
    again = zeros(len(got))
    for _ in range(100):
        request = world.Ialltoallv([numbers(sum(counts), rank), counts, places, MPI.DOUBLE],
                                   [again, mine, spread, MPI.DOUBLE])
        while not request.Test():
            pass
    results["Ialltoallv"] = again.tolist()
    bytes_of = [8 * count for count in counts], [8 * place for place in places]
    again = zeros(len(got))
    world.Alltoallw([numbers(sum(counts), rank), (counts, bytes_of[1]), [MPI.DOUBLE] * size],
                    [again, (mine, [8 * place for place in spread]), [MPI.DOUBLE] * size])
    results["Alltoallw"] = again.tolist()


def between_groups() -> None:
    """Exchanges arrays between two groups of unequal size: arrays are as long as the other group."""
    upper = rank >= 1
    part = world.Split(upper)
    between = part.Create_intercomm(0, world, 0 if upper else 1)
    counts = [index + 2 for index in range(between.remote_size)]
    got = zeros(sum(counts))
    between.Allgatherv(numbers(part.rank + 2, rank), [got, counts, None, MPI.DOUBLE])
    results["Allgatherv between groups"] = got.tolist()


def neighbours() -> None:
    ring = world.Create_cart([size], periods=[True])
    got = zeros(3 * 2)
    ring.Neighbor_allgatherv(numbers(3, rank), [got, [3, 3], [0, 3], MPI.DOUBLE])
    results["Neighbor_allgatherv"] = got.tolist()
    graph = world.Create_dist_graph_adjacent([left], [right])
    got = zeros(4)
    graph.Neighbor_alltoallv([numbers(4, rank), [4], [0], MPI.DOUBLE], [got, [4], [0], MPI.DOUBLE])
    results["Neighbor_alltoallv"] = got.tolist()


def memory() -> None:
    window = MPI.Win.Allocate(8 * 8, 8, comm=world)
    window.Fence()
    window.Put(numbers(8, rank), right)
    window.Fence()
    results["Put"] = array.array("d", bytes(window.tomemory())).tolist()
    window.Free()
    buffer = bytearray(10000)
    MPI.Attach_buffer(buffer)
    request = world.Irecv(got := zeros(5), source=left)
    world.Bsend(numbers(5, rank), dest=right)
    request.Wait()
    MPI.Detach_buffer()
    results["Bsend"] = got.tolist()


def refusals() -> None:
    """Passes a count that no int holds, to an MPI without large counts."""
    if "Open MPI" not in MPI.Get_library_version():
        results["refused"] = False
        return
    world.Set_errhandler(MPI.ERRORS_RETURN)
    try:
        world.Bcast([bytearray(8), 2**31, MPI.BYTE], root=0)
    except MPI.Exception as error:
        results["refused"] = error.Get_error_class() in (MPI.ERR_COUNT, MPI.ERR_ARG)


MODULES = ("bench", "futures", "run", "typing", "util.dtlib", "util.pkl5", "util.pool", "util.sync")


def tried(does: Callable[[], object]) -> object:
    try:
        return does()
    except NotImplementedError:
        return "the MPI lacks it"


def exchange() -> object:
    got = zeros(3)
    world.Isendrecv(numbers(3, rank), right, recvbuf=got, source=left).Wait()
    return got.tolist()


def exchange_replace() -> object:
    got = numbers(3, rank)
    world.Isendrecv_replace(got, right, source=left).Wait()
    return got.tolist()


def statuses() -> object:
    requests = [world.isend(rank, right)]
    world.recv(source=left)
    MPI.Request.get_status_all(requests)
    MPI.Request.waitall(requests)
    return "asked"


def buffer() -> object:
    world.Attach_buffer(bytearray(10000))
    world.Flush_buffer()
    return world.Detach_buffer() is not None


def persistent() -> object:
    got = numbers(4, rank)
    request = world.Bcast_init(got, root=0)
    request.Start()
    request.Wait()
    request.Free()
    return got.tolist()


def session() -> object:
    mine = MPI.Session.Init()
    sets = mine.Get_num_psets()
    mine.Finalize()
    return sets > 0


def newer() -> None:
    """Calls functions that MPI 3.1 lacks."""
    for does in (exchange, exchange_replace, statuses, buffer, persistent, session):
        results[does.__name__] = tried(does)


def modules() -> None:
    for name in MODULES:
        importlib.import_module(f"mpi4py.{name}")
    results["modules"] = MODULES


for part in (point_to_point, collectives, vectors, between_groups, neighbours, memory, refusals, newer, modules):
    part()
everything = world.gather(results, root=0)
if rank == 0:
    for number, have in enumerate(everything):
        for name, value in have.items():
            print(number, name, value)
    sys.stdout.flush()
