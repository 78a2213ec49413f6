"""The parts of the mpi-wait command: one module per subcommand, listed in cli.COMMANDS."""

__version__ = "0.1.0"  # as in meson.build
