"""The parts of the mpi-wait command, by packages: each imports from those below it alone.

report, top, trial (try) and check are the subcommands (cli.COMMANDS); then pictures, meaning, jobs, site, record and
text.
"""

import os


def _release() -> str:
    """The file `release` that meson installs beside this one; in a source tree, what meson.build says."""
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        with open(os.path.join(here, "release"), encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        pass
    try:
        with open(os.path.join(here, "..", "..", "meson.build"), encoding="utf-8") as file:
            return file.read().partition("version: '")[2].partition("'")[0]
    except FileNotFoundError:
        return "of no release"


__version__ = _release()
