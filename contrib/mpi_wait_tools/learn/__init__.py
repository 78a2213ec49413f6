"""mpi-wait learn: proposes a wait policy for each program of a site, from the records of its jobs."""
