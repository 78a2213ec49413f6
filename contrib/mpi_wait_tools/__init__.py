"""The parts of the mpi-wait command, by packages: each imports from those below it alone.

report, top, trial (try) and check are the subcommands (cli.COMMANDS); then pictures, meaning, jobs, site, record and
text.
"""

__version__ = "0.1.0"  # as in meson.build
