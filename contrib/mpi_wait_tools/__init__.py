"""The mpi-wait command. Each package imports only from packages below it.

On top are the subcommands report, top, trial (try), learn and check (cli.COMMANDS). Below them, in this order:
pictures, meaning, jobs, site, record, text.
"""

import os


def _release() -> str:
    """Reads the file `release`, which meson installs beside this one; in a source tree, the version in meson.build."""
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
