"""A site that installs packages: a Debian with only Slurm, in a root directory and namespaces of its own."""
