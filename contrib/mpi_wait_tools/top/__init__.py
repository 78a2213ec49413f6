"""mpi-wait top: sorts the jobs of a period by the energy that their waiting took."""
