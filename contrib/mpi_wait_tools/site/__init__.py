"""What this host is, and what its Slurm says."""
