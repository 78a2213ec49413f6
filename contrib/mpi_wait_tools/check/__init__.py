"""mpi-wait check: tells if a host is fit for the plugin."""
