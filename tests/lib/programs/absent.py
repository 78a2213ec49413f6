"""As contrib/unbalanced, but a rank is away asleep where that computes: no other load makes it later. Rank 0 prints a
line each time that all have met.

    python3 absent.py ITERATIONS MILLISECONDS IMBALANCE
"""

from __future__ import annotations

import sys
import time
from array import array

from mpi4py import MPI

iterations, milliseconds, imbalance = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
total = array("i", [0])
for _ in range(iterations):
    time.sleep(milliseconds / 1000 * (1 + imbalance * rank / max(size - 1, 1)))
    MPI.COMM_WORLD.Allreduce(array("i", [rank]), total)
    if rank == 0:
        print("met", flush=True)
