from spack.package import CMakePackage, depends_on, version


class Powercap(CMakePackage):
    """C interface to the Linux power capping framework, RAPL among others."""

    homepage = "https://github.com/powercap/powercap"
    git = "https://github.com/powercap/powercap.git"
    version("0.6.0", tag="v0.6.0", commit="0bb5f69e3c5c1a9044e8ecb99f7539ca22d29c13")

    depends_on("c", type="build")

    def cmake_args(self):
        return [self.define("BUILD_SHARED_LIBS", True)]
