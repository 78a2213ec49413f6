#!/usr/bin/python3
"""late_sender in Python: rank 0 sends N milliseconds late, rank 1 waits in Recv of a buffer."""

import array
import sys
import time

from mpi4py import MPI

values = array.array("d", (index / 7 for index in range(1000)))
milliseconds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
world = MPI.COMM_WORLD
if world.rank == 0:
    time.sleep(milliseconds / 1000)
    world.Send(values, dest=1)
elif world.rank == 1:
    world.Recv(values, source=0)
    print("checksum", sum(values).hex())
