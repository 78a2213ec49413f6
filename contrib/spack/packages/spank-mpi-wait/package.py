from pathlib import Path

from spack.package import MesonPackage, depends_on, version


class SpankMpiWait(MesonPackage):
    """Slurm plugin that makes MPI waiting cheap. Name the site's Slurm as an external package: the plugin works with
    the Slurm that it was built for. Its path in plugstack.conf is that of the installation: give it a view or a
    projection that does not change with the hash, and install it where every node sees it."""

    # The checkout that this recipe is a part of.
    git = Path(__file__).resolve().parents[4].as_uri()
    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("meson@0.58.2:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type=("build", "run"))
    depends_on("py-jinja2", type="run")
    depends_on("py-rich", type="run")
    depends_on("slurm")
    depends_on("hwloc@2.1:")
    # Linked into the plugin: a job's or Slurm's own never meets ours.
    depends_on("jansson@2.11: ~shared cflags=-fPIC")
    depends_on("powercap")

    def meson_args(self):
        return ["-Dtests=false", "--libdir=lib"]
