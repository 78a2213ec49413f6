"""mpi-wait report: shows the waiting of one job's ranks, or compares several jobs."""
