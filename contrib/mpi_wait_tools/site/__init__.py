"""Looks at this host and asks its Slurm, for the other packages."""
